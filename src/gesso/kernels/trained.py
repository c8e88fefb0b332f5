"""Computes norms and turns of heads on a GPU in a training step, forward and back; `trained_experts` has gates and
mixtures.

Single operations read and write every tensor between them, half of them in fp32, and PyTorch's kernels of norms take a
block of threads for each row, however short. Here a program takes several rows, computes in fp32 and rounds once.

    R rows, of heads or of hidden states   K features   H heads of a token   N tokens

Traffic: every input and output once, those of a turn twice.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from gesso.kernels.placement import on_its_device
from gesso.kernels.rounding import store_rounded

HELD = 4096
"""Numbers that a program holds of one tensor."""
PROGRAMS = 1024
"""Programs that add up the gradient of a norm's weights, at most; each writes its own sum."""
Turn = tuple[Tensor, Tensor]
"""cos and sin of every token, [N, 1, K]."""


@on_its_device
def norm(
    x: Tensor, weight_K: Tensor | None, eps: float, dtype: torch.dtype, turn: Turn | None = None, heads: int = 1
) -> tuple[Tensor, Tensor]:
    """Computes RMSNorm of the last axis, times its weights, turned by cos and sin where they are given.

    Args:
        x: [N, H, K] with a turn, else of any shape.
        dtype: of what is returned.
        heads: of a token, whose rows share its cos and sin.

    Returns:
        The norm, in the shape of `x`, and one over the root of the mean square of every row, fp32 [R].
    """
    x = x.contiguous()
    width, rows = x.shape[-1], x.numel() // x.shape[-1]
    out, inverse_R = torch.empty_like(x, dtype=dtype), x.new_empty(rows, dtype=torch.float32)
    sizes = row_sizes(width)
    cos, sin = (None, None) if turn is None else (part.contiguous() for part in turn)
    _norm[(triton.cdiv(rows, sizes["ROWS"]),)](
        x, weight_K, cos, sin, out, inverse_R, rows, eps, HEADS=heads, **_kind(weight_K, turn), **sizes
    )
    return out, inverse_R


@on_its_device
def norm_back(
    grad: Tensor,
    x: Tensor,
    weight_K: Tensor | None,
    inverse_R: Tensor,
    turn: Turn | None = None,
    heads: int = 1,
    *,
    of_weights: bool = True,
) -> tuple[Tensor, Tensor | None]:
    """Returns the gradients of `norm`'s input and of its weights; None of these where there are none, or where they are
    not asked for, and then nothing is added up over rows."""
    x, grad = x.contiguous(), grad.contiguous()
    width, rows = x.shape[-1], len(inverse_R)
    sizes = row_sizes(width)
    programs = min(PROGRAMS, triton.cdiv(rows, sizes["ROWS"]))
    of_x, summed = torch.empty_like(x), weight_K is not None and of_weights
    sums = x.new_empty(programs, width, dtype=torch.float32) if summed else None
    cos, sin = (None, None) if turn is None else (part.contiguous() for part in turn)
    _norm_back[(programs,)](
        grad,
        x,
        weight_K,
        cos,
        sin,
        inverse_R,
        of_x,
        sums,
        rows,
        HEADS=heads,
        SUMMED=summed,
        **_kind(weight_K, turn),
        **sizes,
    )
    return of_x, None if sums is None or weight_K is None else sums.sum(0).to(weight_K.dtype)


def row_sizes(width: int) -> dict[str, int]:
    """Returns the sizes of a program that takes several rows of so many numbers."""
    padded = triton.next_power_of_2(width)
    return {"WIDTH": width, "PADDED": padded, "ROWS": max(1, HELD // padded), "num_warps": 8 if padded > HELD else 4}


def _kind(weight_K: Tensor | None, turn: Turn | None) -> dict[str, bool]:
    return {"WEIGHTED": weight_K is not None, "TURNED": turn is not None}


@triton.jit
def _norm(
    x,
    weight,
    cos,
    sin,
    out,
    inverses,
    rows,
    eps,
    HEADS: tl.constexpr,
    WEIGHTED: tl.constexpr,
    TURNED: tl.constexpr,
    WIDTH: tl.constexpr,
    PADDED: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Some rows of `norm`. A turn pairs the first half with the second: each number is computed with its partner."""
    r, d = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS), tl.arange(0, PADDED)
    mine = (r < rows)[:, None] & (d < WIDTH)[None, :]
    own = tl.load(x + r[:, None] * WIDTH + d[None, :], mask=mine, other=0.0).to(tl.float32)
    inverse = 1.0 / tl.sqrt(tl.sum(own * own, axis=1) / WIDTH + eps)
    tl.store(inverses + r, inverse, mask=r < rows)
    own = own * inverse[:, None]
    if WEIGHTED:
        own = own * tl.load(weight + d, mask=d < WIDTH, other=0.0).to(tl.float32)[None, :]
    if TURNED:
        partner = tl.where(d < WIDTH // 2, d + WIDTH // 2, d - WIDTH // 2)
        other = tl.load(x + r[:, None] * WIDTH + partner[None, :], mask=mine, other=0.0).to(tl.float32)
        other = other * inverse[:, None]
        if WEIGHTED:
            other = other * tl.load(weight + partner, mask=d < WIDTH, other=0.0).to(tl.float32)[None, :]
        other = tl.where((d < WIDTH // 2)[None, :], -other, other)
        angle = (r // HEADS)[:, None] * WIDTH + d[None, :]
        own = own * tl.load(cos + angle, mask=mine, other=0.0).to(tl.float32)
        own = own + other * tl.load(sin + angle, mask=mine, other=0.0).to(tl.float32)
    store_rounded(out + r[:, None] * WIDTH + d[None, :], own, mine)


@triton.jit
def _norm_back(
    grad,
    x,
    weight,
    cos,
    sin,
    inverses,
    of_x,
    sums,
    rows,
    HEADS: tl.constexpr,
    SUMMED: tl.constexpr,
    WEIGHTED: tl.constexpr,
    TURNED: tl.constexpr,
    WIDTH: tl.constexpr,
    PADDED: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Some rows at a time of `norm_back`, and where it is asked for the sum of what they give the weights."""
    d = tl.arange(0, PADDED)
    if SUMMED:
        total = tl.zeros((PADDED,), tl.float32)
    if WEIGHTED:
        scale = tl.load(weight + d, mask=d < WIDTH, other=0.0).to(tl.float32)
    for first in range(tl.program_id(0) * ROWS, rows, tl.num_programs(0) * ROWS):
        r = tl.cast(first, tl.int64) + tl.arange(0, ROWS)
        mine = (r < rows)[:, None] & (d < WIDTH)[None, :]
        at = r[:, None] * WIDTH + d[None, :]
        g = tl.load(grad + at, mask=mine, other=0.0).to(tl.float32)
        if TURNED:
            partner = tl.where(d < WIDTH // 2, d + WIDTH // 2, d - WIDTH // 2)
            token = (r // HEADS)[:, None] * WIDTH
            other = tl.load(grad + r[:, None] * WIDTH + partner[None, :], mask=mine, other=0.0).to(tl.float32)
            other = other * tl.load(sin + token + partner[None, :], mask=mine, other=0.0).to(tl.float32)
            g = g * tl.load(cos + token + d[None, :], mask=mine, other=0.0).to(tl.float32)
            g = g + tl.where((d < WIDTH // 2)[None, :], other, -other)
        own = tl.load(x + at, mask=mine, other=0.0).to(tl.float32)
        inverse = tl.load(inverses + r, mask=r < rows, other=0.0)
        unit = own * inverse[:, None]
        if SUMMED:
            total += tl.sum(g * unit, axis=0)
        if WEIGHTED:
            g = g * scale[None, :]
        along = tl.sum(g * unit, axis=1) / WIDTH
        store_rounded(of_x + at, (g - unit * along[:, None]) * inverse[:, None], mine)
    if SUMMED:
        tl.store(sums + tl.program_id(0) * WIDTH + d, total, mask=d < WIDTH)
