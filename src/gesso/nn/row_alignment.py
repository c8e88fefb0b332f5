"""Row alignment: how many rows a CPU's matmul needs so that a row's result is the same bits whatever stands beside it.

A matmul library picks its kernel by the number of rows, and kernels add up in different orders. From some multiple of
rows on, every row's result is the same bits; which multiple depends on the library that a weight goes to (see
`gesso.nn.linear`), the weight's shape and type, the processor and the threads. So it is measured, with random numbers,
once for every shape that a process multiplies by, the first time that it does (some milliseconds for all of a small
model): `row_plan`. A matmul of fewer rows than its plan asks for is filled up with copies of the last row.

Where no multiple keeps the bits (seen for bfloat16 without bfloat16 units, on three threads), the rows are multiplied
in calls of one size instead. Matrices of more than `MEASURED` numbers are not measured: they get the largest multiple.
Past about a thousand input features libraries cut the sum itself by the number of rows, and results are then the same
but for rounding.

A whole pass is filled up to few rows (`align_rows`), because libraries compile a kernel for every number of rows that
they meet and elementwise functions round otherwise where a thread's share ends inside a vector.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

ALIGNMENTS = (4, 8, 16)
"""Multiples of rows that are tried for a matmul. Every pass comes in multiples of the first on a CPU; from the last on,
and on any other device, in multiples of the last."""
MEASURED = 1 << 21
"""Numbers of the largest weight that is measured: all rows tried of it are a GFLOP."""
_COUNTS = (16, 32)
"""Numbers of rows that must agree with `_REFERENCE` rows: few, because a library compiles a kernel for each."""
_REFERENCE = 144

Multiply = Callable[[Tensor, Tensor, Tensor | None], Tensor]
"""x [N, in], weight [out, in] and bias [out] or None -> [N, out]."""


@dataclass(frozen=True, slots=True)
class RowPlan:
    """How the rows of one matmul are grouped so that none depends on the others."""

    multiple: int
    """Fewer rows than `ALIGNMENTS[-1]` come in multiples of this."""
    together: bool = True
    """Whether any multiple of `ALIGNMENTS[-1]` rows may be multiplied in one call; if not, that many a call."""


@functools.cache
@torch.no_grad()
def row_plan(
    multiply: Multiply,
    shape: tuple[int, ...],
    dtype: torch.dtype,
    transposed: bool,
    biased: bool,
    threads: int,  # noqa: ARG001 - results depend on it
) -> RowPlan:
    """The plan of a matmul by `multiply`, measured once in a process for each kind of weight.

    Args:
        shape: of the weight, [out, in].
        transposed: the weight is a transposed view of [in, out] in memory.
        threads: that PyTorch computes with.
    """
    last = ALIGNMENTS[-1]
    if shape[0] * shape[1] > MEASURED:
        return RowPlan(last)
    weight, x = _cancelling(shape, dtype)
    if transposed:
        weight = weight.T.contiguous().T
    bias = weight[:, 0].contiguous() if biased else None
    whole = multiply(x, weight, bias)

    def keeps(count: int, start: int = 0) -> bool:
        part = slice(start, start + count)
        return torch.equal(multiply(x[part].clone(), weight, bias), whole[part])

    together = all(keeps(count) for count in _COUNTS) and keeps(last, start=_REFERENCE - last)
    if not together:
        return RowPlan(last, together=False)
    for multiple in ALIGNMENTS[:-1]:
        if all(keeps(count) for count in range(multiple, last, multiple)) and keeps(multiple, start=multiple):
            return RowPlan(multiple)
    return RowPlan(last)


def _cancelling(shape: tuple[int, ...], dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """A weight and rows whose products add up to about nothing: what is left is the rounding of the sum, which shows
    its order even where the result is rounded to few bits."""
    outside, inside = shape
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(outside, inside, generator=generator).to(dtype)
    x = torch.randn(_REFERENCE, inside, generator=generator).to(dtype)
    half = inside // 2
    order = torch.randperm(half, generator=generator)
    weight[:, half : 2 * half] = -weight[:, order]
    x[:, half : 2 * half] = x[:, order]
    return weight, x


def multiply_aligned(multiply: Multiply, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """`multiply` of rows on a CPU, [..., in] -> [..., out], grouped by their plan."""
    shape = weight.shape
    plan = row_plan(
        multiply, shape, weight.dtype, weight.stride(0) == 1 != shape[1], bias is not None, torch.get_num_threads()
    )
    rows, last = x.numel() // shape[1], ALIGNMENTS[-1]
    fill = -rows % (plan.multiple if rows < last else last)
    if not fill and (plan.together or rows == last):
        return multiply(x, weight, bias)
    flat = x.reshape(rows, shape[1])
    if fill:
        flat = torch.cat((flat, flat[-1:].expand(fill, -1)))
    if plan.together:
        out = multiply(flat, weight, bias)
    else:
        out = torch.cat([multiply(part, weight, bias) for part in flat.split(last)])
    return out[:rows].view(*x.shape[:-1], shape[0])


def pass_multiple(device: torch.device) -> int:
    """Rows of a pass of fewer than `ALIGNMENTS[-1]` come in multiples of this."""
    return ALIGNMENTS[0 if device.type == "cpu" else -1]


def align_rows(x: Tensor) -> Tensor:
    """Fill up to whole multiples with copies of the last row: they cost no expert that the row does not use itself."""
    fill = -x.shape[0] % (pass_multiple(x.device) if x.shape[0] < ALIGNMENTS[-1] else ALIGNMENTS[-1])
    return x if not fill else torch.cat((x, x[-1:].expand(fill, *x.shape[1:])))
