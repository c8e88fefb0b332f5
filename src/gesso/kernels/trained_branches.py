"""Computes a layer's second residual sum with the norms around it on a GPU in a training step, forward and back.

    N rows   D hidden

Traffic: every input and output once. Backward reads no residual that came in, and adds the branches up anew.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from gesso.kernels.placement import on_its_device
from gesso.kernels.rounding import store_rounded
from gesso.kernels.trained_blocks import (
    block_sizes,
    flat,
    inverse_root,
    norm_back,
    programs_back,
    summed,
    weights_of,
)


@on_its_device
def branches(
    x_ND: Tensor,
    one_ND: Tensor,
    other_ND: Tensor,
    weights_D: tuple[Tensor, ...],
    eps: float,
    factor_1: Tensor,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:
    """Computes (x + norm(norm(one) + norm(other))) * factor.

    Args:
        weights_D: those of one, of other and of their sum.
        dtype: of what is returned.

    Returns:
        The sum, [N, D], and one over the roots of the mean squares of one, of other and of their sum, fp32 [3, N].
    """
    x_ND = x_ND.contiguous()
    rows, width = x_ND.shape
    out, sizes = torch.empty_like(x_ND, dtype=dtype), block_sizes(width)
    inverses_3N = x_ND.new_empty(3, rows, dtype=torch.float32)
    _branches[(triton.cdiv(rows, sizes["ROWS"]),)](
        x_ND, *flat((one_ND, other_ND, *weights_D)), factor_1, out, inverses_3N, rows, eps, **sizes
    )
    return out, inverses_3N


@on_its_device
def branches_back(
    grad_ND: Tensor,
    x_ND: Tensor,
    one_ND: Tensor,
    other_ND: Tensor,
    weights_D: tuple[Tensor, ...],
    inverses_3N: Tensor,
    factor_1: Tensor,
    *,
    of_weights: bool = True,
) -> tuple[Tensor, ...]:
    """Returns the gradients of `branches`' tensors: of x, one and other, and of the three weights where they are asked
    for."""
    one_ND, other_ND = one_ND.contiguous(), other_ND.contiguous()
    rows, width = one_ND.shape
    of_x = one_ND.new_empty(rows, width, dtype=x_ND.dtype)
    of_one, of_other = torch.empty_like(one_ND), torch.empty_like(other_ND)
    programs, sizes = programs_back(rows, width)
    sums = one_ND.new_empty(programs, 3, width, dtype=torch.float32) if of_weights else None
    _branches_back[(programs,)](
        grad_ND.contiguous(),
        one_ND,
        other_ND,
        *flat(weights_D),
        factor_1,
        inverses_3N,
        of_x,
        of_one,
        of_other,
        sums,
        rows,
        SUMMED=of_weights,
        **sizes,
    )
    return of_x, of_one, of_other, *summed(sums, weights_D)


@triton.jit
def _branches(
    x,
    one,
    other,
    of_one,
    of_other,
    last,
    scalar,
    out,
    inverses,
    rows,
    eps,
    WIDTH: tl.constexpr,
    PADDED: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Some rows of `branches`."""
    r, d = (tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS))[:, None], tl.arange(0, PADDED)
    mine, at = (r < rows) & (d < WIDTH)[None, :], r * WIDTH + d[None, :]
    a = tl.load(one + at, mask=mine, other=0.0).to(tl.float32)
    b = tl.load(other + at, mask=mine, other=0.0).to(tl.float32)
    inverse = inverse_root(a, eps, WIDTH)
    tl.store(inverses + r, inverse, mask=r < rows)
    s = a * inverse * weights_of(of_one, d, WIDTH)
    inverse = inverse_root(b, eps, WIDTH)
    tl.store(inverses + rows + r, inverse, mask=r < rows)
    s += b * inverse * weights_of(of_other, d, WIDTH)
    inverse = inverse_root(s, eps, WIDTH)
    tl.store(inverses + 2 * rows + r, inverse, mask=r < rows)
    s = tl.load(x + at, mask=mine, other=0.0).to(tl.float32) + s * inverse * weights_of(last, d, WIDTH)
    store_rounded(out + at, s * tl.load(scalar).to(tl.float32), mine)


@triton.jit
def _branches_back(
    grad,
    one,
    other,
    of_one,
    of_other,
    last,
    scalar,
    inverses,
    to_x,
    to_one,
    to_other,
    sums,
    rows,
    SUMMED: tl.constexpr,
    WIDTH: tl.constexpr,
    PADDED: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Some rows at a time of `branches_back`, and where it is asked for the sums of what they give the weights."""
    d, factor = tl.arange(0, PADDED), tl.load(scalar).to(tl.float32)
    if SUMMED:
        sum_0, sum_1 = tl.zeros((ROWS, PADDED), tl.float32), tl.zeros((ROWS, PADDED), tl.float32)
        sum_2 = tl.zeros((ROWS, PADDED), tl.float32)
    for start in range(tl.program_id(0) * ROWS, rows, tl.num_programs(0) * ROWS):
        r = (tl.cast(start, tl.int64) + tl.arange(0, ROWS))[:, None]
        mine, at = (r < rows) & (d < WIDTH)[None, :], r * WIDTH + d[None, :]
        inverse_a = tl.load(inverses + r, mask=r < rows, other=0.0)
        inverse_b = tl.load(inverses + rows + r, mask=r < rows, other=0.0)
        inverse = tl.load(inverses + 2 * rows + r, mask=r < rows, other=0.0)
        a = tl.load(one + at, mask=mine, other=0.0).to(tl.float32) * inverse_a
        b = tl.load(other + at, mask=mine, other=0.0).to(tl.float32) * inverse_b
        unit = (a * weights_of(of_one, d, WIDTH) + b * weights_of(of_other, d, WIDTH)) * inverse
        g = tl.load(grad + at, mask=mine, other=0.0).to(tl.float32) * factor
        store_rounded(to_x + at, g, mine)
        if SUMMED:
            sum_2 += g * unit
        g = norm_back(g * weights_of(last, d, WIDTH), unit, inverse, WIDTH)
        if SUMMED:
            sum_0 += g * a
            sum_1 += g * b
        store_rounded(to_one + at, norm_back(g * weights_of(of_one, d, WIDTH), a, inverse_a, WIDTH), mine)
        store_rounded(to_other + at, norm_back(g * weights_of(of_other, d, WIDTH), b, inverse_b, WIDTH), mine)
    if SUMMED:
        place = sums + tl.program_id(0) * 3 * WIDTH + d
        tl.store(place, tl.sum(sum_0, axis=0), mask=d < WIDTH)
        tl.store(place + WIDTH, tl.sum(sum_1, axis=0), mask=d < WIDTH)
        tl.store(place + 2 * WIDTH, tl.sum(sum_2, axis=0), mask=d < WIDTH)
