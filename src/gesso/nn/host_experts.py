"""Mixes experts on a CPU where one kernel multiplies by all of them, whatever their weights are held in.

N tokens   k experts of each   D hidden   E experts
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from gesso.nn.fused_norms import mix_neighbours
from gesso.nn.gated_gelu import gated_gelu
from gesso.nn.grouped_products import sorted_layout
from gesso.nn.mixtures import weighted
from gesso.nn.row_alignment import ALIGNMENTS

FEW_CHOICES = 64
"""Products of a row and an expert up to which each is made by itself, if they are half as many as experts at most:
further on, multiplying the rows of an expert together pays."""


def mix_on_host(
    x_ND: Tensor,
    weights_Nk: Tensor,
    experts_Nk: Tensor,
    num_experts: int,
    kernel: str,
    gate_up: Sequence[Tensor],
    down: Sequence[Tensor],
) -> Tensor:
    """Sums weight times expert(x) over the chosen experts, [N, D].

    Args:
        kernel: the name of the weights in `kernels.host.packed`.
        gate_up: the parts of the first matrix of all experts, [E, ...]; `down` those of the second.
    """
    from gesso.kernels.host.packed import matmul

    rows, count = leading_rows(x_ND), x_ND.shape[0]
    if rows < count:
        own = x_ND[:rows], weights_Nk[:rows], experts_Nk[:rows]
        return repeat_last(mix_on_host(*own, num_experts, kernel, gate_up, down), count)
    if rows * experts_Nk.shape[1] <= min(FEW_CHOICES, num_experts // 2):
        return _mix_few(x_ND, weights_Nk, experts_Nk, kernel, gate_up, down)

    sources_M, slots_M, ends_E = sorted_layout(experts_Nk, num_experts)
    gate, up = matmul(x_ND, kernel, gate_up, ends_E, sources_M).chunk(2, dim=-1)
    out_MD = matmul(gated_gelu(gate, up), kernel, down, ends_E)
    return weighted(out_MD, slots_M.view(experts_Nk.shape), weights_Nk)


def _mix_few(
    x_ND: Tensor, weights_Nk: Tensor, experts_Nk: Tensor, kernel: str, gate_up: Sequence[Tensor], down: Sequence[Tensor]
) -> Tensor:
    """Computes `mix_sorted` of few rows, to the same bits: nothing is sorted or moved."""
    from gesso.kernels.host.packed import matmul_chosen

    chosen: list[int] = experts_Nk.flatten().tolist()
    gate, up = matmul_chosen(x_ND, kernel, gate_up, chosen).chunk(2, dim=-1)
    return mix_neighbours(matmul_chosen(gated_gelu(gate, up), kernel, down, chosen), weights_Nk)


def leading_rows(x_MD: Tensor) -> int:
    """Counts the rows before those that repeat the last one, with which small passes are filled up."""
    rows: int = x_MD.shape[0]
    if rows > ALIGNMENTS[-1]:
        return rows
    while rows > 1 and torch.equal(x_MD[rows - 1], x_MD[rows - 2]):
        rows -= 1
    return rows


def repeat_last(x_MD: Tensor, rows: int) -> Tensor:
    """Repeats the last row until there are `rows`."""
    return torch.cat((x_MD, x_MD[-1:].expand(rows - x_MD.shape[0], -1)))
