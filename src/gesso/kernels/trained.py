"""Computes on a GPU what stands between a training step's products, forward and back: norms, turns of heads, gates,
mixtures.

Single operations read and write every tensor between them, half of them in fp32, and PyTorch's kernels of norms take a
block of threads for each row, however short: together they were half of a step of a small model. Here a program takes
several rows, computes in fp32 and rounds once.

    R rows, of heads or of hidden states   K features   H heads of a token   M rows of experts   F features of a gate
    N tokens   k rows of a token   D hidden

Traffic: every input and output once, those of a turn twice.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from gesso.kernels.rounding import rounded

HELD = 4096
"""Numbers that a program holds of one tensor."""
PROGRAMS = 1024
"""Programs that add up the gradient of a norm's weights, at most; each writes its own sum."""
Turn = tuple[Tensor, Tensor]
"""cos and sin of every token, [N, 1, K]."""


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
    sizes = _sizes(width)
    cos, sin = (None, None) if turn is None else (part.contiguous() for part in turn)
    _norm[(triton.cdiv(rows, sizes["ROWS"]),)](
        x, weight_K, cos, sin, out, inverse_R, rows, eps, HEADS=heads, **_kind(weight_K, turn), **sizes
    )
    return out, inverse_R


def norm_back(
    grad: Tensor,
    x: Tensor,
    weight_K: Tensor | None,
    inverse_R: Tensor,
    turn: Turn | None = None,
    heads: int = 1,
) -> tuple[Tensor, Tensor | None]:
    """Returns the gradients of `norm`'s input and of its weights."""
    x, grad = x.contiguous(), grad.contiguous()
    width, rows = x.shape[-1], len(inverse_R)
    sizes = _sizes(width)
    programs = min(PROGRAMS, triton.cdiv(rows, sizes["ROWS"]))
    of_x = torch.empty_like(x)
    sums = None if weight_K is None else x.new_empty(programs, width, dtype=torch.float32)
    cos, sin = (None, None) if turn is None else (part.contiguous() for part in turn)
    _norm_back[(programs,)](
        grad, x, weight_K, cos, sin, inverse_R, of_x, sums, rows, HEADS=heads, **_kind(weight_K, turn), **sizes
    )
    return of_x, None if sums is None or weight_K is None else sums.sum(0).to(weight_K.dtype)


def gate(gate_MF: Tensor, up_MF: Tensor) -> Tensor:
    """Computes gelu(gate) * up, [M, F], by GELU's tanh approximation; rows may be parts of longer ones."""
    out = gate_MF.new_empty(gate_MF.shape)
    _gate[_gate_grid(gate_MF)](
        gate_MF, up_MF, out, gate_MF.stride(0), up_MF.stride(0), len(gate_MF), **_gate_sizes(gate_MF)
    )
    return out


def gate_back(grad_MF: Tensor, gate_MF: Tensor, up_MF: Tensor, of_gate_MF: Tensor, of_up_MF: Tensor) -> None:
    """Writes the gradients of `gate`'s inputs, whose rows may be parts of longer ones."""
    _gate_back[_gate_grid(gate_MF)](
        grad_MF.contiguous(),
        gate_MF,
        up_MF,
        of_gate_MF,
        of_up_MF,
        gate_MF.stride(0),
        up_MF.stride(0),
        of_gate_MF.stride(0),
        of_up_MF.stride(0),
        len(gate_MF),
        **_gate_sizes(gate_MF),
    )


def mix(x_MD: Tensor, slots_Nk: Tensor, weights_Nk: Tensor) -> Tensor:
    """Sums for each of N the k rows at its slots times their weights, [N, D]."""
    (rows, each), width = slots_Nk.shape, x_MD.shape[1]
    out, sizes = x_MD.new_empty(rows, width), _sizes(width)
    grid = (triton.cdiv(rows, sizes["ROWS"]),)
    _mix[grid](x_MD.contiguous(), slots_Nk.contiguous(), weights_Nk.contiguous(), out, rows, EACH=each, **sizes)
    return out


def mix_back(grad_ND: Tensor, x_MD: Tensor, slots_Nk: Tensor, weights_Nk: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the gradients of `mix`'s rows, zero for those that no token has, and of its weights."""
    (rows, each), width = slots_Nk.shape, x_MD.shape[1]
    of_x, of_weights, sizes = torch.zeros_like(x_MD), torch.empty_like(weights_Nk), _sizes(width)
    _mix_back[(triton.cdiv(rows, sizes["ROWS"]),)](
        grad_ND.contiguous(),
        x_MD.contiguous(),
        slots_Nk.contiguous(),
        weights_Nk.contiguous(),
        of_x,
        of_weights,
        rows,
        EACH=each,
        **sizes,
    )
    return of_x, of_weights


def _sizes(width: int) -> dict[str, int]:
    padded = triton.next_power_of_2(width)
    return {"WIDTH": width, "PADDED": padded, "ROWS": max(1, HELD // padded), "num_warps": 8 if padded > HELD else 4}


def _kind(weight_K: Tensor | None, turn: Turn | None) -> dict[str, bool]:
    return {"WEIGHTED": weight_K is not None, "TURNED": turn is not None}


def _gate_sizes(gate_MF: Tensor) -> dict[str, int]:
    width = gate_MF.shape[1]
    block = min(1024, triton.next_power_of_2(width))
    return {"WIDTH": width, "BLOCK": block, "ROWS": max(1, HELD // 2 // block), "num_warps": 4}


def _gate_grid(gate_MF: Tensor) -> tuple[int, int]:
    sizes = _gate_sizes(gate_MF)
    assert gate_MF.stride(1) == 1
    return triton.cdiv(len(gate_MF), sizes["ROWS"]), triton.cdiv(sizes["WIDTH"], sizes["BLOCK"])


@triton.jit
def _store(place, x, mask):
    kind = place.dtype.element_ty
    tl.store(place, rounded(x, kind).to(kind), mask=mask)


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
    _store(out + r[:, None] * WIDTH + d[None, :], own, mine)


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
    WEIGHTED: tl.constexpr,
    TURNED: tl.constexpr,
    WIDTH: tl.constexpr,
    PADDED: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Some rows at a time of `norm_back`, and the sum of what they give the weights."""
    d = tl.arange(0, PADDED)
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
        if WEIGHTED:
            total += tl.sum(g * unit, axis=0)
            g = g * scale[None, :]
        along = tl.sum(g * unit, axis=1) / WIDTH
        _store(of_x + at, (g - unit * along[:, None]) * inverse[:, None], mine)
    if WEIGHTED:
        tl.store(sums + tl.program_id(0) * WIDTH + d, total, mask=d < WIDTH)


@triton.jit
def _risen(g):
    """(1 + tanh(y)) / 2, which is 1 / (1 + exp(-2 y)), of GELU's y."""
    twice = 1.5957691216057308 * (g + 0.044715 * g * g * g)
    risen = tl.exp(-tl.abs(twice))  # never too large
    return tl.where(twice < 0, risen, 1.0) / (1.0 + risen)


@triton.jit
def _gate(gate, up, out, of_gate, of_up, rows, WIDTH: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    """A part of some rows of `gate`."""
    r = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    f = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mine = (r < rows)[:, None] & (f < WIDTH)[None, :]
    g = tl.load(gate + r[:, None] * of_gate + f[None, :], mask=mine, other=0.0).to(tl.float32)
    u = tl.load(up + r[:, None] * of_up + f[None, :], mask=mine, other=0.0).to(tl.float32)
    _store(out + r[:, None] * WIDTH + f[None, :], g * _risen(g) * u, mine)


@triton.jit
def _gate_back(
    grad,
    gate,
    up,
    to_gate,
    to_up,
    of_gate,
    of_up,
    of_to_gate,
    of_to_up,
    rows,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
):
    """A part of some rows of `gate_back`."""
    r = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    f = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mine = (r < rows)[:, None] & (f < WIDTH)[None, :]
    change = tl.load(grad + r[:, None] * WIDTH + f[None, :], mask=mine, other=0.0).to(tl.float32)
    g = tl.load(gate + r[:, None] * of_gate + f[None, :], mask=mine, other=0.0).to(tl.float32)
    u = tl.load(up + r[:, None] * of_up + f[None, :], mask=mine, other=0.0).to(tl.float32)
    share = _risen(g)
    slope = share + g * share * (1.0 - share) * 1.5957691216057308 * (1.0 + 0.134145 * g * g)
    _store(to_gate + r[:, None] * of_to_gate + f[None, :], change * u * slope, mine)
    _store(to_up + r[:, None] * of_to_up + f[None, :], change * g * share, mine)


@triton.jit
def _mix(
    x, slots, weights, out, rows, EACH: tl.constexpr, WIDTH: tl.constexpr, PADDED: tl.constexpr, ROWS: tl.constexpr
):
    """Some rows of `mix`."""
    n, d = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS), tl.arange(0, PADDED)
    mine = (n < rows)[:, None] & (d < WIDTH)[None, :]
    total = tl.zeros((ROWS, PADDED), tl.float32)
    for i in range(EACH):
        slot = tl.load(slots + n * EACH + i, mask=n < rows, other=0).to(tl.int64)
        weight = tl.load(weights + n * EACH + i, mask=n < rows, other=0.0).to(tl.float32)
        own = tl.load(x + slot[:, None] * WIDTH + d[None, :], mask=mine, other=0.0).to(tl.float32)
        total += own * weight[:, None]
    _store(out + n[:, None] * WIDTH + d[None, :], total, mine)


@triton.jit
def _mix_back(
    grad,
    x,
    slots,
    weights,
    of_x,
    of_weights,
    rows,
    EACH: tl.constexpr,
    WIDTH: tl.constexpr,
    PADDED: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Some rows of `mix_back`."""
    n, d = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS), tl.arange(0, PADDED)
    mine = (n < rows)[:, None] & (d < WIDTH)[None, :]
    g = tl.load(grad + n[:, None] * WIDTH + d[None, :], mask=mine, other=0.0).to(tl.float32)
    for i in range(EACH):
        slot = tl.load(slots + n * EACH + i, mask=n < rows, other=0).to(tl.int64)
        weight = tl.load(weights + n * EACH + i, mask=n < rows, other=0.0).to(tl.float32)
        at = slot[:, None] * WIDTH + d[None, :]
        own = tl.load(x + at, mask=mine, other=0.0).to(tl.float32)
        tl.store(of_weights + n * EACH + i, tl.sum(own * g, axis=1).to(of_weights.dtype.element_ty), mask=n < rows)
        _store(of_x + at, g * weight[:, None], mine)
