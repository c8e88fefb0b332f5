"""Computes gates and mixtures of experts on a GPU in a training step, forward and back, as `trained` does norms.

    M rows of experts   F features of a gate   N tokens   k rows of a token   D hidden

Traffic: every input and output once.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from gesso.kernels.placement import on_its_device
from gesso.kernels.rounding import store_rounded
from gesso.kernels.trained import HELD, row_sizes


@on_its_device
def gate(gate_MF: Tensor, up_MF: Tensor) -> Tensor:
    """Computes gelu(gate) * up, [M, F], by GELU's tanh approximation, in the wider type of the two.

    Rows may be parts of longer ones.
    """
    gate_MF, up_MF = _side_by_side(gate_MF), _side_by_side(up_MF)
    out = gate_MF.new_empty(gate_MF.shape, dtype=torch.promote_types(gate_MF.dtype, up_MF.dtype))
    _gate[_gate_grid(gate_MF)](
        gate_MF, up_MF, out, gate_MF.stride(0), up_MF.stride(0), len(gate_MF), **_gate_sizes(gate_MF)
    )
    return out


@on_its_device
def gate_back(grad_MF: Tensor, gate_MF: Tensor, up_MF: Tensor, of_gate_MF: Tensor, of_up_MF: Tensor) -> None:
    """Writes the gradients of `gate`'s inputs, each in memory whose rows may be parts of longer ones."""
    gate_MF, up_MF = _side_by_side(gate_MF), _side_by_side(up_MF)
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


@on_its_device
def mix(x_MD: Tensor, slots_Nk: Tensor, weights_Nk: Tensor | None) -> Tensor:
    """Sums for each of N the k rows at its slots, times their weights where there are any, [N, D]."""
    (rows, each), width = slots_Nk.shape, x_MD.shape[1]
    out, sizes = x_MD.new_empty(rows, width), row_sizes(width)
    weights_Nk = None if weights_Nk is None else weights_Nk.contiguous()
    _mix[(triton.cdiv(rows, sizes["ROWS"]),)](
        x_MD.contiguous(),
        slots_Nk.contiguous(),
        weights_Nk,
        out,
        rows,
        EACH=each,
        WEIGHTED=weights_Nk is not None,
        **sizes,
    )
    return out


@on_its_device
def mix_back(grad_ND: Tensor, x_MD: Tensor, slots_Nk: Tensor, weights_Nk: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the gradients of `mix`'s rows, zero for those that no token has, and of its weights."""
    (rows, each), width = slots_Nk.shape, x_MD.shape[1]
    x_MD, weights_Nk = x_MD.contiguous(), weights_Nk.contiguous()  # their gradients lie as they do
    of_x, of_weights, sizes = torch.zeros_like(x_MD), torch.empty_like(weights_Nk), row_sizes(width)
    _mix_back[(triton.cdiv(rows, sizes["ROWS"]),)](
        grad_ND.contiguous(),
        x_MD,
        slots_Nk.contiguous(),
        weights_Nk,
        of_x,
        of_weights,
        rows,
        EACH=each,
        **sizes,
    )
    return of_x, of_weights


def _side_by_side(x_MF: Tensor) -> Tensor:
    """Returns rows whose numbers lie side by side, as they are where theirs do."""
    return x_MF if x_MF.stride(1) == 1 else x_MF.contiguous()


def _gate_sizes(gate_MF: Tensor) -> dict[str, int]:
    width = gate_MF.shape[1]
    block = min(1024, triton.next_power_of_2(width))
    return {"WIDTH": width, "BLOCK": block, "ROWS": max(1, HELD // 2 // block), "num_warps": 4}


def _gate_grid(gate_MF: Tensor) -> tuple[int, int]:
    sizes = _gate_sizes(gate_MF)
    return triton.cdiv(len(gate_MF), sizes["ROWS"]), triton.cdiv(sizes["WIDTH"], sizes["BLOCK"])


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
    store_rounded(out + r[:, None] * WIDTH + f[None, :], g * _risen(g) * u, mine)


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
    store_rounded(to_gate + r[:, None] * of_to_gate + f[None, :], change * u * slope, mine)
    store_rounded(to_up + r[:, None] * of_to_up + f[None, :], change * g * share, mine)


@triton.jit
def _mix(
    x,
    slots,
    weights,
    out,
    rows,
    EACH: tl.constexpr,
    WEIGHTED: tl.constexpr,
    WIDTH: tl.constexpr,
    PADDED: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Some rows of `mix`."""
    n, d = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS), tl.arange(0, PADDED)
    mine = (n < rows)[:, None] & (d < WIDTH)[None, :]
    total = tl.zeros((ROWS, PADDED), tl.float32)
    for i in range(EACH):
        slot = tl.load(slots + n * EACH + i, mask=n < rows, other=0).to(tl.int64)
        own = tl.load(x + slot[:, None] * WIDTH + d[None, :], mask=mine, other=0.0).to(tl.float32)
        if WEIGHTED:
            own *= tl.load(weights + n * EACH + i, mask=n < rows, other=0.0).to(tl.float32)[:, None]
        total += own
    store_rounded(out + n[:, None] * WIDTH + d[None, :], total, mine)


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
        store_rounded(of_x + at, g * weight[:, None], mine)
