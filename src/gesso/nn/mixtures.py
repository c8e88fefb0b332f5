"""Mixes experts: each token's rows go to its experts, and come back weighted.

Tokens are sorted by expert once, each expert that got any multiplies one contiguous slice, and the
results are put back in token order: no loop over empty experts and no scatter.

Where one kernel serves all experts, the slices are multiplied in one call: on CUDA PyTorch's for plain weights in
bfloat16 where it has one, and ours for all others and for packed ones; on Apple's GPUs PyTorch's for plain weights, in
versions that have it (2.13 has not); on CPUs ours for packed weights, small ones in fp32, and, without instructions for
bfloat16, weights in it. On GPUs how many tokens an expert got then stays on the device: nobody waits for it, so a pass
can be recorded as a CUDA graph.

    N tokens   k experts of each   M rows, sorted by expert   D in   F out   E experts
"""

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from gesso import kernels
from gesso.nn import gpu_training
from gesso.nn.gated_gelu import gated_gelu, gated_gelu_of_halves
from gesso.nn.grouped_products import multiply_groups, padded_layout, sorted_layout
from gesso.nn.linear import linear
from gesso.nn.row_alignment import ALIGNMENTS, pass_multiple
from gesso.nn.training_experts import LayOut

FINE, COARSE = ALIGNMENTS[-1], 2 * ALIGNMENTS[-1]
"""An expert's rows come in multiples of these, and of `pass_multiple` where they are fewer than the fine one: matmul
libraries compile a kernel per shape, and unrounded expert loads would be a new shape every time. The fine one is for
loads so small that padding would show."""

SHAPES = 16
"""Tiles that the rows of an expert of average load make in training in bfloat16."""

Projection = Callable[[Tensor], Tensor]
"""One linear map of one expert: [n, in] -> [n, out]."""
GroupedProjection = Callable[[Tensor, Tensor], Tensor]
"""One linear map of every expert: rows [M, in], sorted by expert, and where each expert's end [E] -> [M, out]."""


def projections_of(gate_up_EFD: Tensor, down_EDF: Tensor) -> Iterator[tuple[Projection, Projection]]:
    """Yields gate_up and down of every expert."""
    # One unbind each: its gradient is one stack, where indexing would cost a whole tensor for every expert.
    for gate_up, down in zip(gate_up_EFD.unbind(), down_EDF.unbind(), strict=True):
        yield partial(linear, weight=gate_up), partial(linear, weight=down)


def mix_grouped(x_ND: Tensor, weights_Nk: Tensor, experts_Nk: Tensor, gate_up_EFD: Tensor, down_EDF: Tensor) -> Tensor:
    """Computes `mix_sorted` with plain weights, in one call for all experts."""
    gate_up, down = (partial(multiply_groups, matrix_EFD=matrix) for matrix in (gate_up_EFD, down_EDF))
    return mix_sorted(x_ND, weights_Nk, experts_Nk, len(gate_up_EFD), gate_up, down)


def mix_in_training(
    x_ND: Tensor,
    weights_Nk: Tensor,
    experts_Nk: Tensor,
    num_experts: int,
    gate_up: GroupedProjection,
    down: GroupedProjection,
) -> Tensor:
    """Computes `mix_sorted` with gradients, in bfloat16."""
    source_M, slots, ends_E = padded_layout(experts_Nk, num_experts)
    rows_ND, slots_Nk = x_ND.to(torch.bfloat16), slots.view(experts_Nk.shape)
    by_kernel = gpu_training.trains_on_gpu(rows_ND)
    rows_MD = gpu_training.lay_out(rows_ND, source_M, slots_Nk) if by_kernel else rows_ND.index_select(0, source_M)
    out_MD = down(gated_gelu_of_halves(gate_up(rows_MD, ends_E)), ends_E)
    return weighted(out_MD, slots_Nk, weights_Nk)


def mix_sorted(
    x_ND: Tensor,
    weights_Nk: Tensor,
    experts_Nk: Tensor,
    num_experts: int,
    gate_up: GroupedProjection,
    down: GroupedProjection,
) -> Tensor:
    """Computes `mix_experts` by two maps over all experts; shapes depend on shapes alone."""
    source_M, slots_M, ends_E = _sorted_by_expert(experts_Nk, num_experts)
    gate, up = gate_up(x_ND.index_select(0, source_M), ends_E).chunk(2, dim=-1)
    out = down(gated_gelu(gate, up), ends_E)
    return weighted(out, slots_M.view(experts_Nk.shape), weights_Nk)


def _sorted_by_expert(experts_Nk: Tensor, num_experts: int) -> tuple[Tensor, Tensor, Tensor]:
    """Lays tokens side by side by expert, without waiting for the device.

    Returns:
        The token of every row [M], the row of every (token, choice) [M], and where each expert's rows end [E].
    """
    if kernels.usable(experts_Nk.device):
        from gesso.kernels import routing

        return routing.lay_out(experts_Nk, num_experts)
    return sorted_layout(experts_Nk, num_experts)


def mix_experts(
    x_ND: Tensor,
    weights_Nk: Tensor,
    experts_Nk: Tensor,
    num_experts: int,
    projections: Iterator[tuple[Projection, Projection]],
) -> Tensor:
    """Sums weight times `down(gelu(gate(x)) * up(x))` over each token's experts, [N, D]."""
    out_MD, slots_Nk = apply_experts(x_ND, experts_Nk, num_experts, projections)
    return weighted(out_MD, slots_Nk, weights_Nk)


def apply_experts(
    x_ND: Tensor, experts_Nk: Tensor, num_experts: int, projections: Iterator[tuple[Projection, Projection]]
) -> tuple[Tensor, Tensor]:
    """Applies to every token each of its experts.

    Returns:
        The results as rows [M, D] in no order that matters, and the row of every (token, choice), [N, k].
    """
    lay_out = lay_out_tiles(experts_Nk, num_experts)
    return _apply_laid_out(x_ND, lay_out, projections), lay_out[0].view(experts_Nk.shape)


def _apply_laid_out(x_ND: Tensor, lay_out: LayOut, projections: Iterator[tuple[Projection, Projection]]) -> Tensor:
    _, source, tiles = lay_out
    outputs = []
    for tile, (gate_up, down) in zip(x_ND.index_select(0, source).split(tiles), projections, strict=True):
        if tile.shape[0]:
            outputs.append(down(gated_gelu_of_halves(gate_up(tile))))
    return torch.cat(outputs)


def mix_laid_out(lay_out: LayOut, x_ND: Tensor, weights_Nk: Tensor, gate_up_EFD: Tensor, down_EDF: Tensor) -> Tensor:
    """Computes `mix_experts` of plain weights, of tokens that are laid out."""
    out_MD = _apply_laid_out(x_ND, lay_out, projections_of(gate_up_EFD, down_EDF))
    return weighted(out_MD, lay_out[0].view(weights_Nk.shape), weights_Nk)


def weighted(out_MD: Tensor, slots_Nk: Tensor, weights_Nk: Tensor) -> Tensor:
    """Sums each token's rows times their weights, [N, D]."""
    if out_MD.device.type == "cpu" and not torch.is_grad_enabled():
        # One pass over memory instead of four.
        weights_Nk = weights_Nk.to(out_MD.dtype)
        out: Tensor = F.embedding_bag(slots_Nk, out_MD, mode="sum", per_sample_weights=weights_Nk)
        return out
    if kernels.serves(out_MD):
        from gesso.kernels import normed

        return normed.mix(out_MD, slots_Nk, weights_Nk)
    if gpu_training.trains_on_gpu(out_MD, weights_Nk):
        return gpu_training.mix(out_MD, slots_Nk, weights_Nk)
    out_NkD = out_MD.index_select(0, slots_Nk.flatten()).view(*slots_Nk.shape, -1)
    return (out_NkD * weights_Nk[..., None].to(out_NkD.dtype)).sum(dim=1)


def rows_of_few_shapes(load: int) -> int:
    """Returns the multiple that experts' rows come in, a power of two, where each gets `load` on average: so that there
    are few shapes, which products of bfloat16 meet again; a kernel for a new one takes a millisecond to make."""
    return int(max(COARSE, 1 << (load // SHAPES).bit_length() >> 1))


def lay_out_tiles(experts_Nk: Tensor, num_experts: int, rows: int | None = None) -> LayOut:
    """Lays each expert's tokens side by side, in tiles of aligned rows.

    Args:
        rows: what tiles are multiples of; None chooses by the number of tokens.

    Returns:
        The row of every (token, choice), the token of every row, and the rows of every expert.
    """
    tokens, top_k = experts_Nk.shape
    flat, device = experts_Nk.flatten(), experts_Nk.device
    rows = rows or (FINE if flat.numel() < 4 * COARSE * num_experts else COARSE)
    if experts_Nk.is_meta:  # a pass without numbers, made to count memory: every expert gets its share
        tiles = [-(-flat.numel() // num_experts // rows) * rows] * num_experts
        return torch.empty_like(flat), flat.new_empty(sum(tiles)), tiles
    order = flat.argsort(stable=True)
    counts = flat.bincount(minlength=num_experts)
    padded = (counts + rows - 1) // rows * rows
    if rows == FINE and (least := pass_multiple(device)) < FINE:
        padded = torch.where(counts < FINE, (counts + least - 1) // least * least, padded)
    # Slot of every (token, choice): its place among its expert's tokens, in tiles of aligned rows.
    gap = (padded.cumsum(0) - padded) - (counts.cumsum(0) - counts)
    slots = torch.empty_like(order)
    slots[order] = torch.arange(order.numel(), device=device) + gap[flat[order]]
    tiles = padded.tolist()
    # What fills a tile up is token 0 once more; nobody reads what comes out of it.
    source = torch.zeros(sum(tiles), dtype=order.dtype, device=device)
    source[slots] = torch.arange(tokens, device=device).repeat_interleave(top_k)
    return slots, source, tiles
