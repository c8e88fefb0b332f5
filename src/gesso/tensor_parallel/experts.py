"""Holds a rank's experts, whole ones, and computes their part of the mixture."""

from collections.abc import Iterator
from itertools import chain

import torch
from torch import Tensor

from gesso.nn.experts import Experts
from gesso.nn.grouped_products import can_group, multiply_groups
from gesso.nn.mixtures import Projection, mix_experts, mix_sorted
from gesso.ranks.group import RankGroup


class OwnExperts:
    """Computes with some of a model's experts; what others hold adds nothing."""

    own: range
    """This rank's experts."""
    shapes: tuple[tuple[int, int], tuple[int, int]]
    """Shapes of an expert's two matrices."""

    def own_part(self, weights_Nk: Tensor, experts_Nk: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the weights and experts of this rank, both [N, k]: those of other ranks weigh nothing, and stand
        behind the last one as one that answers nothing."""
        place_Nk = experts_Nk - self.own.start
        outside_Nk = (place_Nk < 0) | (place_Nk >= len(self.own))
        return weights_Nk.masked_fill(outside_Nk, 0.0), place_Nk.masked_fill(outside_Nk, len(self.own))

    def mix(
        self, x_ND: Tensor, weights_Nk: Tensor, place_Nk: Tensor, projections: Iterator[tuple[Projection, Projection]]
    ) -> Tensor:
        """Sums weight times expert(x) over this rank's experts, one after the other, [N, D]."""
        rows, width = self.shapes[0][0], x_ND.shape[1]
        nobody = (lambda x: x.new_zeros(len(x), rows), lambda x: x.new_zeros(len(x), width))
        return mix_experts(x_ND, weights_Nk, place_Nk, len(self.own) + 1, chain(projections, [nobody]))


class ShardedExperts(OwnExperts, Experts):
    """Holds whole weights."""

    def __init__(self, hidden_size: int, intermediate_size: int, num_experts: int, group: RankGroup) -> None:
        self.own = group.share(num_experts)
        super().__init__(hidden_size, intermediate_size, len(self.own))

    def forward(self, x_ND: Tensor, weights_Nk: Tensor, experts_Nk: Tensor) -> Tensor:
        weights_Nk, place_Nk = self.own_part(weights_Nk, experts_Nk)
        if can_group(x_ND, self.gate_up_proj, self.down_proj):
            gate_up, down = self.gate_up_proj, self.down_proj

            def last(x_MD: Tensor, ends_E: Tensor) -> Tensor:
                behind = torch.arange(len(x_MD), device=x_MD.device) >= ends_E[-1]
                return multiply_groups(x_MD, ends_E, down).masked_fill(behind[:, None], 0.0)

            return mix_sorted(
                x_ND, weights_Nk, place_Nk, len(self.own), lambda x, ends: multiply_groups(x, ends, gate_up), last
            )
        return self.mix(x_ND, weights_Nk, place_Nk, self.projections())
