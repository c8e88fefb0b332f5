"""Whole grains of rows, so that a row's numbers do not depend on what stands beside it.

A CPU's matmul of a handful of rows adds up in another order than one of many. From some number of rows on, and in
multiples of it, every row's result is the same bits, as long as the inner size stays below a thousand or so (below 512
with torch 2.11, whose oneDNN is an older one); past that it is the same but for rounding. Which number that is, four or
sixteen, depends on the processor, its libraries and the threads, so it is found out: fewer rows are less work where a
pass has few. Where it has more it is sixteen anyway, because a matmul library makes a kernel for every number of rows
that it meets.
"""

import functools

import torch
from torch import Tensor

from gesso.nn.linear import linear

GRAINS = (4, 8, 16)
"""The least is taken that this machine keeps; the last without asking, and on everything that is no CPU."""
_TRIED = ((torch.float32, 704, 48), (torch.float32, 256, 192), (torch.bfloat16, 256, 192))
"""Types, inner and outer sizes of matmuls: few, because a library makes a kernel for each."""
_MULTIPLES = (1, 5)


def grain(device: torch.device) -> int:
    """Rows come in multiples of this."""
    return _cpu_grain(torch.get_num_threads()) if device.type == "cpu" else GRAINS[-1]


@functools.cache
def _cpu_grain(threads: int) -> int:  # noqa: ARG001
    """Found by some milliseconds of matmuls, once for each number of threads."""
    return next((rows for rows in GRAINS[:-1] if _keeps(rows)), GRAINS[-1])


@torch.no_grad()
def _keeps(rows: int) -> bool:
    """Whether matmuls of multiples of `rows` agree with one of many rows, to the last bit."""
    generator = torch.Generator().manual_seed(0)
    for dtype, inside, outside in _TRIED:
        weight = torch.randn(outside, inside, generator=generator).to(dtype)
        x = torch.randn(_MULTIPLES[-1] * GRAINS[-1], inside, generator=generator).to(dtype)
        whole = linear(x, weight)
        if any(not torch.equal(linear(x[: n * rows].clone(), weight), whole[: n * rows]) for n in _MULTIPLES):
            return False
    return True


def align_rows(x: Tensor) -> Tensor:
    """Fill up to a whole grain with copies of the last row: they cost no expert that the row does not use itself."""
    fill = -x.shape[0] % (grain(x.device) if x.shape[0] < GRAINS[-1] else GRAINS[-1])
    return x if not fill else torch.cat((x, x[-1:].expand(fill, *x.shape[1:])))
