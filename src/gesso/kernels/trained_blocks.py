"""Computes a layer's first residual sum with the norms around it on a GPU in a training step, forward and back;
`trained_branches` has the second.

One by one they are a dozen kernels each way, each of which reads and writes whole tensors, the residual in fp32. Here a
row goes through what belongs together at once, in fp32, and is rounded once; `trained` has norms that stand alone.

    N rows   D hidden

Traffic: every input and output once. Backward reads no residual that came in: its gradient is that of the sum.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from gesso.kernels.placement import on_its_device
from gesso.kernels.rounding import rounded, store_rounded
from gesso.kernels.trained import PROGRAMS

HELD = 1024
"""Numbers that a program holds of one tensor, or a row's: of up to ten tensors at once."""


@on_its_device
def attended(
    x_ND: Tensor, branch_ND: Tensor, weights_D: tuple[Tensor, ...], eps: float, factor: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Computes x + norm(branch), and its norms by three weights, the third times `factor`.

    Args:
        weights_D: the branch's, and the three.
        dtype: of the three.

    Returns:
        The sum in the type of `x` or a wider one of `dtype`, the three, [N, D] each, and one over the roots of the mean
        squares of branch and sum, fp32 [2, N].
    """
    x_ND, branch_ND = x_ND.contiguous(), branch_ND.contiguous()
    rows, width = x_ND.shape
    total = torch.empty_like(x_ND, dtype=torch.promote_types(x_ND.dtype, dtype))
    first, second, third = (torch.empty_like(x_ND, dtype=dtype) for _ in range(3))
    inverses_2N, sizes = x_ND.new_empty(2, rows, dtype=torch.float32), block_sizes(width)
    _attended[(triton.cdiv(rows, sizes["ROWS"]),)](
        x_ND, branch_ND, *flat(weights_D), total, first, second, third, inverses_2N, rows, eps, factor, **sizes
    )
    return total, first, second, third, inverses_2N


@on_its_device
def attended_back(
    x_ND: Tensor,
    branch_ND: Tensor,
    weights_D: tuple[Tensor, ...],
    total_ND: Tensor,
    inverses_2N: Tensor,
    factor: float,
    grads_ND: tuple[Tensor, ...],
    *,
    of_weights: bool = True,
) -> tuple[Tensor, ...]:
    """Returns the gradients of `attended`'s tensors: of x and of the branch, and of the four weights where they are
    asked for.

    Args:
        grads_ND: of the sum and of its three norms.
    """
    branch_ND = branch_ND.contiguous()
    rows, width = branch_ND.shape
    of_x, of_branch = branch_ND.new_empty(rows, width, dtype=x_ND.dtype), torch.empty_like(branch_ND)
    programs, sizes = programs_back(rows, width)
    sums = branch_ND.new_empty(programs, 4, width, dtype=torch.float32) if of_weights else None
    _attended_back[(programs,)](
        *flat(grads_ND),
        branch_ND,
        total_ND,
        *flat(weights_D),
        inverses_2N,
        of_x,
        of_branch,
        sums,
        rows,
        factor,
        SUMMED=of_weights,
        **sizes,
    )
    return of_x, of_branch, *summed(sums, weights_D)


def flat(tensors: tuple[Tensor, ...]) -> list[Tensor]:
    """Returns tensors as kernels read them."""
    return [tensor.contiguous() for tensor in tensors]


def block_sizes(width: int) -> dict[str, Any]:
    """Returns the sizes of a program that takes one row or several; short ones have a warp each."""
    padded = triton.next_power_of_2(width)
    warps = min(16, max(4, padded // 256))
    return {"WIDTH": width, "PADDED": padded, "ROWS": max(1, HELD // padded), "num_warps": warps}


def programs_back(rows: int, width: int) -> tuple[int, dict[str, Any]]:
    """Returns how many programs share the rows backward, and their sizes. With long rows few run at a time, and each
    writes its own sums of weights."""
    sizes = block_sizes(width)
    most = PROGRAMS if sizes["PADDED"] <= HELD else PROGRAMS // 4
    return min(most, triton.cdiv(rows, sizes["ROWS"])), sizes


def summed(sums: Tensor | None, weights_D: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Returns the gradients of weights from the programs' sums; none where there are none."""
    if sums is None:
        return ()
    return tuple(own.to(weight.dtype) for own, weight in zip(sums.sum(0), weights_D, strict=True))


@triton.jit
def inverse_root(x, eps, WIDTH: tl.constexpr):
    """Computes one over the root of the mean square of every row."""
    return (1.0 / tl.sqrt(tl.sum(x * x, axis=1) / WIDTH + eps))[:, None]


@triton.jit
def weights_of(weight, d, WIDTH: tl.constexpr):
    """Loads a norm's weights, for all rows."""
    return tl.load(weight + d, mask=d < WIDTH, other=0.0).to(tl.float32)[None, :]


@triton.jit
def norm_back(g, unit, inverse, WIDTH: tl.constexpr):
    """Computes the gradient of what a norm takes: of its result, `unit`, it is g."""
    return (g - unit * (tl.sum(g * unit, axis=1) / WIDTH)[:, None]) * inverse


@triton.jit
def _attended(
    x,
    branch,
    after,
    weight_1,
    weight_2,
    weight_3,
    total,
    first,
    second,
    third,
    inverses,
    rows,
    eps,
    factor,
    WIDTH: tl.constexpr,
    PADDED: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Some rows of `attended`. Norms are of the sum as it is stored, which is what backward reads."""
    kind = total.dtype.element_ty
    r, d = (tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS))[:, None], tl.arange(0, PADDED)
    mine, at = (r < rows) & (d < WIDTH)[None, :], r * WIDTH + d[None, :]
    b = tl.load(branch + at, mask=mine, other=0.0).to(tl.float32)
    t = tl.load(x + at, mask=mine, other=0.0).to(tl.float32)
    inverse = inverse_root(b, eps, WIDTH)
    tl.store(inverses + r, inverse, mask=r < rows)
    t = rounded(t + b * inverse * weights_of(after, d, WIDTH), kind)
    tl.store(total + at, t.to(kind), mask=mine)
    inverse = inverse_root(t, eps, WIDTH)
    tl.store(inverses + rows + r, inverse, mask=r < rows)
    t = t * inverse
    store_rounded(first + at, t * weights_of(weight_1, d, WIDTH), mine)
    store_rounded(second + at, t * weights_of(weight_2, d, WIDTH), mine)
    store_rounded(third + at, t * weights_of(weight_3, d, WIDTH) * factor, mine)


@triton.jit
def _attended_back(
    of_total,
    of_first,
    of_second,
    of_third,
    branch,
    total,
    after,
    weight_1,
    weight_2,
    weight_3,
    inverses,
    of_x,
    of_branch,
    sums,
    rows,
    factor,
    SUMMED: tl.constexpr,
    WIDTH: tl.constexpr,
    PADDED: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Some rows at a time of `attended_back`, and where it is asked for the sums of what they give the weights."""
    d = tl.arange(0, PADDED)
    if SUMMED:
        sum_0, sum_1 = tl.zeros((ROWS, PADDED), tl.float32), tl.zeros((ROWS, PADDED), tl.float32)
        sum_2, sum_3 = tl.zeros((ROWS, PADDED), tl.float32), tl.zeros((ROWS, PADDED), tl.float32)
    for start in range(tl.program_id(0) * ROWS, rows, tl.num_programs(0) * ROWS):
        r = (tl.cast(start, tl.int64) + tl.arange(0, ROWS))[:, None]
        mine, at = (r < rows) & (d < WIDTH)[None, :], r * WIDTH + d[None, :]
        inverse = tl.load(inverses + rows + r, mask=r < rows, other=0.0)
        unit = tl.load(total + at, mask=mine, other=0.0).to(tl.float32) * inverse
        own = tl.load(of_first + at, mask=mine, other=0.0).to(tl.float32)
        g = own * weights_of(weight_1, d, WIDTH)
        if SUMMED:
            sum_1 += own * unit
        own = tl.load(of_second + at, mask=mine, other=0.0).to(tl.float32)
        g += own * weights_of(weight_2, d, WIDTH)
        if SUMMED:
            sum_2 += own * unit
        own = tl.load(of_third + at, mask=mine, other=0.0).to(tl.float32) * factor
        g += own * weights_of(weight_3, d, WIDTH)
        if SUMMED:
            sum_3 += own * unit
        g = norm_back(g, unit, inverse, WIDTH) + tl.load(of_total + at, mask=mine, other=0.0).to(tl.float32)
        store_rounded(of_x + at, g, mine)
        inverse = tl.load(inverses + r, mask=r < rows, other=0.0)
        unit = tl.load(branch + at, mask=mine, other=0.0).to(tl.float32) * inverse
        if SUMMED:
            sum_0 += g * unit
        store_rounded(of_branch + at, norm_back(g * weights_of(after, d, WIDTH), unit, inverse, WIDTH), mine)
    if SUMMED:
        place = sums + tl.program_id(0) * 4 * WIDTH + d
        tl.store(place, tl.sum(sum_0, axis=0), mask=d < WIDTH)
        tl.store(place + WIDTH, tl.sum(sum_1, axis=0), mask=d < WIDTH)
        tl.store(place + 2 * WIDTH, tl.sum(sum_2, axis=0), mask=d < WIDTH)
        tl.store(place + 3 * WIDTH, tl.sum(sum_3, axis=0), mask=d < WIDTH)
