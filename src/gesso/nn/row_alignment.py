"""Aligns rows: pads a CPU's matmul to as many rows as keep each row's bits independent of the others (batch-invariant).

A matmul library picks its kernel by the number of rows, and shares rows among threads; kernels add up in different
orders. With some libraries, from some multiple of rows on, every row's result is the same bits; with which, and from
which multiple on, depends on the weight's shape and type, the processor and the threads. So it is measured, with random
numbers, once for every shape that a process multiplies by, the first time that it does (`row_plan`; a tenth of a second
for all of a small model). A matmul of fewer rows than its plan asks for is padded with copies of the last row.

Matrices of more than `MEASURED` numbers are not measured: they get the first library and the largest multiple. Past
about a thousand input features libraries cut the sum itself by the number of rows, and results are then the same but
for rounding.

A whole pass is padded to few rows (`align_rows`), because libraries compile a kernel for every number of rows that they
meet and elementwise functions round otherwise where a thread's share ends inside a vector.
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
_LIGHT = 1 << 15
"""Numbers of a weight of which many rows are tried."""
_ROWS, _LIGHT_ROWS = 144, 528
"""Rows of the matmul that those of fewer rows are compared with."""
_COUNTS, _LIGHT_COUNTS = (16, 32), (16, 32, 48, 80, 112, 160, 256)
"""Numbers of rows that must agree with it: few, because oneDNN compiles a kernel for each."""
_MOST = (None, 32, 16)
"""Rows of a call at most, in the order in which they are tried: some libraries change their ways at larger numbers."""
_NARROW_MOST, _NARROW_COUNTS = (128, 32, 16), (16, 32, 48, 80, 112)
"""The same of other numbers than fp32: with AMX oneDNN changes its ways at 40 rows, and anew from some 200 on."""
_STARTS = (0, 5, 11)
"""Rows that calls begin with: a row's place in its call must not matter either."""

Multiply = Callable[[Tensor, Tensor, Tensor | None], Tensor]
"""x [N, in], weight [out, in] and bias [out] or None -> [N, out]."""


@dataclass(frozen=True, slots=True)
class RowPlan:
    """Says how to multiply by one kind of weight so that no row depends on the others."""

    multiply: Multiply
    multiple: int
    """Fewer rows than `ALIGNMENTS[-1]` come in multiples of this."""
    most: int | None = None
    """Rows of a call at most; None: any number."""


@functools.cache
def row_plan(
    candidates: tuple[Multiply, ...],
    shape: tuple[int, ...],
    dtype: torch.dtype,
    transposed: bool,
    biased: bool,
    threads: int,  # noqa: ARG001 - results depend on it
) -> RowPlan:
    """Measures a matmul, once in a process for each kind of weight.

    The first candidate that keeps a row's bits is taken, if need be in calls of few rows. Where none does, rows are
    multiplied by the first in calls of one size: then no row depends on how many there are, but it may on its place.

    Args:
        candidates: ways to multiply, the preferred one first.
        shape: of the weight, [out, in].
        transposed: the weight is not stored row by row, but as a view of [in, out].
        threads: that PyTorch computes with.
    """
    if shape[0] * shape[1] > MEASURED:
        return RowPlan(candidates[0], ALIGNMENTS[-1])
    weight, x = cancelling(shape, dtype)
    if transposed:
        weight = weight.T.contiguous().T
    bias = weight[:, 0].contiguous() if biased else None
    for multiply in candidates:
        for most in _MOST if dtype == torch.float32 else _NARROW_MOST:
            if multiple := _least_multiple(multiply, x, weight, bias, most):
                return RowPlan(multiply, multiple, most)
    return RowPlan(candidates[0], ALIGNMENTS[-1], ALIGNMENTS[-1])


def _least_multiple(multiply: Multiply, x: Tensor, weight: Tensor, bias: Tensor | None, most: int | None) -> int | None:
    """Returns the least multiple of rows that keeps a row's bits in calls of at most so many; None where none does."""
    whole, last = _multiply_calls(multiply, x, weight, bias, most), ALIGNMENTS[-1]

    def keeps(count: int, start: int = 0) -> bool:
        part = slice(start, start + count)
        return torch.equal(multiply(x[part].clone(), weight, bias), whole[part])

    usual = _COUNTS if x.dtype == torch.float32 else _NARROW_COUNTS
    counts = [n for n in (_LIGHT_COUNTS if len(x) == _LIGHT_ROWS else usual) if most is None or n <= most]
    if not all(keeps(count, start) for count in counts for start in _STARTS):
        return None
    for multiple in ALIGNMENTS[:-1]:
        if all(keeps(count, start) for count in range(multiple, last, multiple) for start in _STARTS):
            return multiple
    return last


def _multiply_calls(multiply: Multiply, x: Tensor, weight: Tensor, bias: Tensor | None, most: int | None) -> Tensor:
    if most is None or len(x) <= most:
        return multiply(x, weight, bias)
    return torch.cat([multiply(part, weight, bias) for part in x.split(most)])


def cancelling(shape: tuple[int, ...], dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Returns a weight and rows whose products add up to about nothing: what is left is the rounding of the sum, which
    shows its order even where the result is rounded to few bits."""
    outside, inside = shape
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(outside, inside, generator=generator, dtype=torch.float32, device="cpu").to(dtype)
    rows = _LIGHT_ROWS if weight.numel() < _LIGHT else _ROWS
    x = torch.randn(rows, inside, generator=generator, dtype=torch.float32, device="cpu").to(dtype)
    half = inside // 2
    order = torch.randperm(half, generator=generator, device="cpu")
    weight[:, half : 2 * half] = -weight[:, order]
    x[:, half : 2 * half] = x[:, order]
    return weight, x


def multiply_aligned(candidates: tuple[Multiply, ...], x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Computes x @ weight.T + bias of rows on a CPU, [..., in] -> [..., out], as their plan says; without gradients."""
    shape = weight.shape
    plan = row_plan(candidates, shape, x.dtype, not weight.is_contiguous(), bias is not None, torch.get_num_threads())
    rows, last = x.numel() // shape[1], ALIGNMENTS[-1]
    fill = -rows % (plan.multiple if rows < last else last)
    if not fill and (plan.most is None or rows <= plan.most):
        return plan.multiply(x, weight, bias)
    flat = x.reshape(rows, shape[1])
    if fill:
        flat = torch.cat((flat, flat[-1:].expand(fill, -1)))
    out = _multiply_calls(plan.multiply, flat, weight, bias, plan.most)
    return out[:rows].view(*x.shape[:-1], shape[0])


def pass_multiple(device: torch.device) -> int:
    """Returns the multiple that a pass of fewer than `ALIGNMENTS[-1]` rows is padded to."""
    return ALIGNMENTS[0 if device.type == "cpu" else -1]


def align_rows(x: Tensor) -> Tensor:
    """Pads to whole multiples with copies of the last row, which need no expert that the row itself does not."""
    fill = -x.shape[0] % (pass_multiple(x.device) if x.shape[0] < ALIGNMENTS[-1] else ALIGNMENTS[-1])
    return x if not fill else torch.cat((x, x[-1:].expand(fill, *x.shape[1:])))
