"""Times work on a GPU by its own clock, compares results, and says whose kernels multiply experts."""

import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest import mock

import torch
from torch import Tensor

from gesso.nn import grouped_products

TRIALS = 20


def milliseconds(work: Callable[[], object], *, captured: bool = False) -> float:
    """The median of several calls, by the device's own clock; of replays, where the host would take longer to tell the
    device of the kernels than they take."""
    for _ in range(3):
        work()
    if captured:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            work()
        work = graph.replay
        work()
    spans: list[float] = []
    for _ in range(TRIALS):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        work()
        end.record()
        end.synchronize()
        spans.append(begin.elapsed_time(end))
    return float(statistics.median(spans))


def distance(found: Tensor, expected: Tensor) -> float:
    """The largest difference in the largest magnitude of what is expected."""
    return float((found.float() - expected.float()).abs().max() / expected.float().abs().max().clamp(min=1e-30))


@contextmanager
def grouped_by(*, own: bool) -> Iterator[None]:
    """Has groups of rows multiplied by our `own` kernels, or by PyTorch's."""
    answers = {"_by_own_kernel": own, "_by_torch": not own}
    with mock.patch.multiple(grouped_products, **{name: mock.Mock(return_value=it) for name, it in answers.items()}):
        yield
