"""Captures by rules of PyTorch's allocator: graphs that stand in for CUDA's count who uses a pool, as that does."""

from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import count

import pytest
import torch
from torch import Tensor

from gesso.runner.cuda_capture import CudaCapture

Pool = tuple[int, int]


class Device:
    """Stands for a CUDA device: its pools, with how many graphs use each, and how often its cache was emptied."""

    def __init__(self) -> None:
        self.uses = Counter[Pool]()
        self.emptied = 0
        self.invalid = False
        """Whether the capture under way cannot be ended, as it was to wait for the device."""


class Stream:
    def wait_stream(self, other: "Stream") -> None:
        pass


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[Device]:
    device, numbers = Device(), count(1)

    class Graph:
        pool: Pool | None = None

        def capture_begin(self, pool: Pool, capture_error_mode: str) -> None:
            assert capture_error_mode == "thread_local"
            if device.uses.get(pool) == 0:
                raise RuntimeError("use_count > 0 INTERNAL ASSERT FAILED")
            device.uses[pool] += 1
            self.pool = pool

        def capture_end(self) -> None:
            if device.invalid:
                raise RuntimeError("operation failed due to a previous error during capture")

        def replay(self) -> None:
            pass

        def __del__(self) -> None:
            if self.pool is not None:
                device.uses[self.pool] -= 1

    def empty() -> None:
        device.emptied += 1

    stand_ins = {
        "CUDAGraph": Graph,
        "Stream": lambda _: Stream(),
        "current_stream": lambda _: Stream(),
        "stream": lambda _: nullcontext(),
        "graph_pool_handle": lambda: (0, next(numbers)),
        "empty_cache": empty,
    }
    for name, stand_in in stand_ins.items():
        monkeypatch.setattr(torch.cuda, name, stand_in)
    return device


def double(x: Tensor) -> Tensor:
    return 2 * x


def test_a_pool_outlives_its_graphs(device: Device) -> None:
    """Other weights drop all graphs, and the next one is captured into their pool, which would be refused."""
    capture, inputs = CudaCapture(torch.device("cpu")), (torch.ones(3),)
    for _ in range(3):
        replay, out = capture(double, inputs)
        assert out.tolist() == [2, 2, 2]
        replay()
        del replay
    assert list(device.uses.values()) == [1], "one pool, and no graph but the newest is kept"
    del capture
    assert list(device.uses.values()) == [0]


def test_memory_that_is_cached_is_given_back_for_a_capture(device: Device) -> None:
    capture, tries = CudaCapture(torch.device("cpu")), []

    def work(x: Tensor) -> Tensor:
        tries.append(device.emptied)
        if not device.emptied:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return 2 * x

    _, out = capture(work, (torch.ones(3),))
    assert (out.tolist(), tries) == ([2, 2, 2], [0, 1])

    def never(x: Tensor) -> Tensor:
        tries.append(device.emptied)
        raise torch.OutOfMemoryError("CUDA out of memory, still")

    with pytest.raises(torch.OutOfMemoryError, match="still"):
        capture(never, (torch.ones(3),))
    assert tries[2:] == [1, 2]


def test_a_capture_that_fails_says_why(device: Device) -> None:
    """Ending it fails as well, and only says that it had failed."""
    device.invalid = True

    def work(_: Tensor) -> Tensor:
        raise RuntimeError("operation not permitted when stream is capturing")

    with pytest.raises(RuntimeError, match="not permitted"):
        CudaCapture(torch.device("cpu"))(work, (torch.ones(3),))
