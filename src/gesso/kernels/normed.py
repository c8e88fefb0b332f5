"""Computes on a GPU what stands between a layer's products: norms, residual sums, turns of heads, gates, mixtures.

One by one they are some forty kernels a layer, each over little memory, and a pass of few rows waits for them longer
than for what they compute. Here a row goes through what belongs together at once. It is rounded wherever
the tensors in between would be, so that results differ from those of single operations by the order of a sum alone.

    N rows   D features   H heads of K features   M rows of experts   F features between an expert's products
    k experts of a row

Traffic: every input and output once.
"""

import triton
import triton.language as tl
from torch import Tensor

from gesso.kernels.placement import on_its_device
from gesso.kernels.rounding import rounded

GATED = 1024
"""Numbers of a gate that a program computes."""


@on_its_device
def add_norm(
    x_ND: Tensor, branch_ND: Tensor, weight_D: Tensor, weights: tuple[Tensor, Tensor, Tensor], eps: float, factor: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Computes x + norm(branch), and its norms by three weights, the third times `factor`, [N, D] each."""
    rows, width = x_ND.shape
    total, first, second, third = x_ND.new_empty(4, rows, width).unbind()
    _add_norm[(rows,)](
        x_ND.contiguous(),
        branch_ND.contiguous(),
        weight_D,
        *weights,
        total,
        first,
        second,
        third,
        eps,
        factor,
        **_row_sizes(width),
    )
    return total, first, second, third


@on_its_device
def add_branches(
    x_ND: Tensor, branches: tuple[Tensor, Tensor], weights: tuple[Tensor, Tensor, Tensor], eps: float, factor_1: Tensor
) -> Tensor:
    """Computes (x + norm(norm(one) + norm(other))) * factor, [N, D]; weights are those of one, of other, and of the
    sum."""
    rows, width = x_ND.shape
    out = x_ND.new_empty(rows, width)
    one, other = (branch.contiguous() for branch in branches)
    _add_branches[(rows,)](x_ND.contiguous(), one, other, *weights, factor_1, out, eps, **_row_sizes(width))
    return out


@on_its_device
def norm_heads(x_NHK: Tensor, weight_K: Tensor | None, turn: tuple[Tensor, Tensor] | None, eps: float) -> Tensor:
    """Computes the norm of every head, [N, H, K]: times its weights and turned by cos and sin [N, 1, K], or as it is
    where there are neither."""
    rows, heads, width = x_NHK.shape
    out = x_NHK.new_empty(rows, heads, width)
    cos, sin = (None, None) if turn is None else (part.contiguous() for part in turn)
    _norm_heads[(rows * heads,)](
        x_NHK.contiguous(),
        weight_K,
        cos,
        sin,
        out,
        eps,
        HEADS=heads,
        WIDTH=width,
        PADDED=triton.next_power_of_2(width),
        WEIGHTED=weight_K is not None,
        TURNED=turn is not None,
        num_warps=1,
        enable_fp_fusion=False,
    )
    return out


@on_its_device
def gate(gate_MF: Tensor, up_MF: Tensor) -> Tensor:
    """Computes gelu(gate) * up, [M, F], by GELU's tanh approximation; the numbers of a row lie side by side."""
    rows, width = gate_MF.shape
    out = gate_MF.new_empty(rows, width)
    assert gate_MF.stride(1) == up_MF.stride(1) == 1
    block = min(GATED, triton.next_power_of_2(width))
    _gate[(rows, triton.cdiv(width, block))](
        gate_MF,
        up_MF,
        out,
        gate_MF.stride(0),
        up_MF.stride(0),
        WIDTH=width,
        BLOCK=block,
        num_warps=4,
        enable_fp_fusion=False,
    )
    return out


@on_its_device
def mix(x_MD: Tensor, slots_Nk: Tensor, weights_Nk: Tensor) -> Tensor:
    """Sums for each of N the k rows at its slots times their weights, [N, D]."""
    (rows, each), width = slots_Nk.shape, x_MD.shape[1]
    out = x_MD.new_empty(rows, width)
    _mix[(rows,)](
        x_MD.contiguous(), slots_Nk.contiguous(), weights_Nk.contiguous(), out, EACH=each, **_row_sizes(width)
    )
    return out


def _row_sizes(width: int) -> dict[str, int | bool]:
    """Sizes of a program that goes through one row. Products and sums are not fused: in between they are rounded."""
    padded = triton.next_power_of_2(width)
    return {"WIDTH": width, "PADDED": padded, "num_warps": 4 if padded <= 2048 else 8, "enable_fp_fusion": False}


@triton.jit
def _inverse(x, eps, WIDTH: tl.constexpr):
    """One over the root of the mean square of WIDTH numbers."""
    return 1.0 / tl.sqrt(tl.sum(x * x, axis=0) / WIDTH + eps)


@triton.jit
def _normed(x, weight, d, eps, WIDTH: tl.constexpr, kind: tl.constexpr):
    """RMSNorm of WIDTH numbers, times their weights, as `kind` holds it."""
    scale = tl.load(weight + d, mask=d < WIDTH, other=0.0).to(tl.float32)
    return rounded(x * _inverse(x, eps, WIDTH) * scale, kind)


@triton.jit
def _add_norm(
    x,
    branch,
    weight,
    weight_1,
    weight_2,
    weight_3,
    total,
    first,
    second,
    third,
    eps,
    factor,
    WIDTH: tl.constexpr,
    PADDED: tl.constexpr,
):
    """One row of `add_norm`."""
    kind = x.dtype.element_ty
    d = tl.arange(0, PADDED)
    at, known = tl.program_id(0).to(tl.int64) * WIDTH + d, d < WIDTH
    b = tl.load(branch + at, mask=known, other=0.0).to(tl.float32)
    own = tl.load(x + at, mask=known, other=0.0).to(tl.float32)
    t = rounded(own + _normed(b, weight, d, eps, WIDTH, kind), kind)
    tl.store(total + at, t.to(kind), mask=known)
    t = t * _inverse(t, eps, WIDTH)
    tl.store(first + at, rounded(t * tl.load(weight_1 + d, mask=known).to(tl.float32), kind).to(kind), mask=known)
    tl.store(second + at, rounded(t * tl.load(weight_2 + d, mask=known).to(tl.float32), kind).to(kind), mask=known)
    scaled = rounded(rounded(t, kind) * tl.load(weight_3 + d, mask=known).to(tl.float32), kind)
    tl.store(third + at, rounded(scaled * factor, kind).to(kind), mask=known)


@triton.jit
def _add_branches(
    x,
    one,
    other,
    of_one,
    of_other,
    of_sum,
    factor,
    out,
    eps,
    WIDTH: tl.constexpr,
    PADDED: tl.constexpr,
):
    """One row of `add_branches`."""
    kind = x.dtype.element_ty
    d = tl.arange(0, PADDED)
    at, known = tl.program_id(0).to(tl.int64) * WIDTH + d, d < WIDTH
    a = tl.load(one + at, mask=known, other=0.0).to(tl.float32)
    b = tl.load(other + at, mask=known, other=0.0).to(tl.float32)
    s = rounded(_normed(a, of_one, d, eps, WIDTH, kind) + _normed(b, of_other, d, eps, WIDTH, kind), kind)
    s = _normed(s, of_sum, d, eps, WIDTH, kind)
    s = rounded(tl.load(x + at, mask=known, other=0.0).to(tl.float32) + s, kind)
    tl.store(out + at, rounded(s * tl.load(factor).to(tl.float32), kind).to(kind), mask=known)


@triton.jit
def _norm_heads(
    x,
    weight,
    cos,
    sin,
    out,
    eps,
    HEADS: tl.constexpr,
    WIDTH: tl.constexpr,
    PADDED: tl.constexpr,
    WEIGHTED: tl.constexpr,
    TURNED: tl.constexpr,
):
    """One head of one row. A turn pairs the first half with the second: each number is computed with its partner."""
    kind = x.dtype.element_ty
    row = tl.program_id(0).to(tl.int64)
    d = tl.arange(0, PADDED)
    known = d < WIDTH
    own = tl.load(x + row * WIDTH + d, mask=known, other=0.0).to(tl.float32)
    inverse = _inverse(own, eps, WIDTH)
    own = own * inverse
    if WEIGHTED:
        own = own * tl.load(weight + d, mask=known, other=0.0).to(tl.float32)
    own = rounded(own, kind)
    if TURNED:
        partner = tl.where(d < WIDTH // 2, d + WIDTH // 2, d - WIDTH // 2)
        other = tl.load(x + row * WIDTH + partner, mask=known, other=0.0).to(tl.float32) * inverse
        if WEIGHTED:
            other = other * tl.load(weight + partner, mask=known, other=0.0).to(tl.float32)
        other = tl.where(d < WIDTH // 2, -rounded(other, kind), rounded(other, kind))
        angle = row // HEADS * WIDTH + d
        own = rounded(own * tl.load(cos + angle, mask=known, other=0.0).to(tl.float32), kind)
        own = own + rounded(other * tl.load(sin + angle, mask=known, other=0.0).to(tl.float32), kind)
        own = rounded(own, kind)
    tl.store(out + row * WIDTH + d, own.to(kind), mask=known)


@triton.jit
def _gate(gate, up, out, of_gate, of_up, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """A part of one row. (1 + tanh(y)) / 2 is 1 / (1 + exp(-2 y))."""
    kind = out.dtype.element_ty
    row = tl.program_id(0).to(tl.int64)
    f = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    known = f < WIDTH
    g = tl.load(gate + row * of_gate + f, mask=known, other=0.0).to(tl.float32)
    u = tl.load(up + row * of_up + f, mask=known, other=0.0).to(tl.float32)
    twice = 1.5957691216057308 * (g + 0.044715 * g * g * g)
    risen = tl.exp(-tl.abs(twice))  # never too large
    share = tl.where(twice < 0, risen, 1.0) / (1.0 + risen)
    tl.store(out + row * WIDTH + f, rounded(rounded(g * share, kind) * u, kind).to(kind), mask=known)


@triton.jit
def _mix(x, slots, weights, out, EACH: tl.constexpr, WIDTH: tl.constexpr, PADDED: tl.constexpr):
    """One row of `mix`."""
    kind = x.dtype.element_ty
    row = tl.program_id(0).to(tl.int64)
    d = tl.arange(0, PADDED)
    known = d < WIDTH
    total = tl.zeros((PADDED,), tl.float32)
    for i in range(EACH):
        slot = tl.load(slots + row * EACH + i).to(tl.int64)
        weight = rounded(tl.load(weights + row * EACH + i).to(tl.float32), kind)
        own = tl.load(x + slot * WIDTH + d, mask=known, other=0.0).to(tl.float32)
        total += rounded(own * weight, kind)
    tl.store(out + row * WIDTH + d, rounded(total, kind).to(kind), mask=known)
