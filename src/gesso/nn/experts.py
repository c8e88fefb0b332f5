"""Implements the router and the experts of the mixture that runs beside the dense MLP.

What a token's experts compute, and how rows come to them, is in `mixtures`, and in `host_experts` for kernels on CPUs.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import ClassVar, Protocol, cast

import torch
from torch import Tensor, nn

from gesso import kernels
from gesso.nn import bfloat16_products, float32_products, gpu_training
from gesso.nn.compiled_training import narrows
from gesso.nn.grouped_products import can_group, groups_in_training, multiply_groups
from gesso.nn.host_experts import mix_on_host
from gesso.nn.host_kernels import host_kernels
from gesso.nn.linear import Linear
from gesso.nn.mixtures import (
    GroupedProjection,
    Projection,
    lay_out_tiles,
    mix_experts,
    mix_grouped,
    mix_in_training,
    mix_laid_out,
    mix_sorted,
    projections_of,
    rows_of_few_shapes,
)
from gesso.nn.norm import rms_norm
from gesso.nn.pass_threads import in_host_pass
from gesso.nn.training_experts import mix_compiled, mixes_in_training


class Router(nn.Module):
    """Chooses experts from the raw residual; weights of a token sum to 1 before `per_expert_scale`."""

    def __init__(self, hidden_size: int, num_experts: int, top_k: int, eps: float) -> None:
        super().__init__()
        self.top_k = top_k
        self.eps = eps
        self.root = hidden_size**-0.5
        self.proj = Linear(hidden_size, num_experts, bias=False)
        self.scale = nn.Parameter(torch.ones(hidden_size))
        self.per_expert_scale = nn.Parameter(torch.ones(num_experts))

    def forward(self, x_ND: Tensor) -> tuple[Tensor, Tensor]:
        """Returns weights and expert numbers, both [N, k]."""
        return self.choose(self.proj(rms_norm(x_ND, None, self.eps) * self.scale * self.root))

    def choose(self, scores_NE: Tensor) -> tuple[Tensor, Tensor]:
        """Returns weights and expert numbers of rows with these scores."""
        if kernels.serves(scores_NE):
            from gesso.kernels import routing

            return routing.choose(scores_NE, self.per_expert_scale, self.top_k)
        if in_host_pass() and scores_NE.dtype == self.per_expert_scale.dtype == torch.float32:
            from gesso.kernels.host import normed

            return normed.choose(scores_NE, self.per_expert_scale, self.top_k)
        probs_NE = scores_NE.softmax(dim=-1, dtype=torch.float32)
        if gpu_training.trains_on_gpu(scores_NE):
            from gesso.kernels import routing

            experts_Nk = routing.choose(scores_NE.detach(), self.per_expert_scale.detach(), self.top_k)[1]
            weights_Nk = probs_NE.gather(1, experts_Nk)
        else:
            weights_Nk, experts_Nk = probs_NE.topk(self.top_k, dim=-1)
        weights_Nk = weights_Nk / weights_Nk.sum(dim=-1, keepdim=True)
        if torch.is_grad_enabled():
            # Looked up in rows of their own: a GPU would add up the gradients of one list of scales one by one.
            scales_NE = self.per_expert_scale.expand(len(experts_Nk), -1)
            return weights_Nk * scales_NE.gather(1, experts_Nk), experts_Nk
        return weights_Nk * self.per_expert_scale.take(experts_Nk), experts_Nk  # a quicker way to look them up


class FusedExperts(Protocol):
    """Describes the experts of a layer, whatever their weights are held in."""

    def grouped(self) -> "tuple[GroupedProjection, GroupedProjection]":
        """Returns gate_up and down of all experts, for rows in bfloat16, with gradients."""

    def projections(self) -> Iterator[tuple[Projection, Projection]]:
        """Yields gate_up and down of every expert that this process holds."""


def held_part(experts: Tensor) -> Tensor:
    """Returns what this process holds of a tensor of all experts: its part where they lie over several processes."""
    to_local: Callable[[], Tensor] | None = getattr(experts, "to_local", None)
    return experts if to_local is None else to_local()


class Experts(nn.Module):
    """Holds fused expert weights: `gate_up_proj` [E, 2F, D] and `down_proj` [E, D, F]."""

    kernel: ClassVar[str] = float32_products.NAME
    """The name of its weights in `kernels.host.packed`, where kernels read them."""

    def __init__(self, hidden_size: int, intermediate_size: int, num_experts: int) -> None:
        super().__init__()
        self.gate_up_proj = nn.Parameter(torch.empty(num_experts, 2 * intermediate_size, hidden_size))
        self.down_proj = nn.Parameter(torch.empty(num_experts, hidden_size, intermediate_size))

    @property
    def num_experts(self) -> int:
        return self.gate_up_proj.shape[0]

    @property
    def shapes(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Returns the rows and columns of one expert's gate_up and down."""
        gate_up, down = self.gate_up_proj.shape, self.down_proj.shape
        return (gate_up[1], gate_up[2]), (down[1], down[2])

    def projections(self) -> Iterator[tuple[Projection, Projection]]:
        """Yields gate_up and down of every expert."""
        return projections_of(held_part(self.gate_up_proj), held_part(self.down_proj))

    def parts(self, matrix: str) -> tuple[Tensor, ...]:
        """Returns "gate_up" or "down" of all experts as kernels read it."""
        return (cast("Tensor", self._parameters[f"{matrix}_proj"]),)

    def read_by_kernels(self) -> bool:
        """Says whether there are kernels for the weights; asked where kernels are available."""
        return all(float32_products.reads(*self.parts(matrix)) for matrix in ("gate_up", "down"))

    def on_host(self, x: Tensor) -> bool:
        """Says whether compiled kernels multiply `x` on the CPU."""
        return x.dtype == torch.float32 and host_kernels(x) and self.read_by_kernels()

    def grouped(self) -> "tuple[GroupedProjection, GroupedProjection]":
        """Returns gate_up and down of all experts, in bfloat16, with gradients."""
        gate_up, down = (matrix.to(torch.bfloat16) for matrix in (self.gate_up_proj, self.down_proj))
        return partial(multiply_groups, matrix_EFD=gate_up), partial(multiply_groups, matrix_EFD=down)

    def forward(self, x_ND: Tensor, weights_Nk: Tensor, experts_Nk: Tensor) -> Tensor:
        """Sums weight times expert(x) over the chosen experts, [N, D]."""
        if can_group(x_ND, self.gate_up_proj, self.down_proj):
            return mix_grouped(x_ND, weights_Nk, experts_Nk, self.gate_up_proj, self.down_proj)
        matrices = self.gate_up_proj, self.down_proj
        if groups_in_training(x_ND, *matrices):
            return mix_in_training(x_ND, weights_Nk, experts_Nk, self.num_experts, *self.grouped())
        if mixes_in_training(x_ND, weights_Nk, *matrices):
            rows = rows_of_few_shapes(experts_Nk.numel() // self.num_experts) if narrows(x_ND) else None
            lay_out = lay_out_tiles(experts_Nk, self.num_experts, rows)
            return mix_compiled(x_ND, weights_Nk, *matrices, lay_out, partial(mix_laid_out, lay_out))
        if self.on_host(x_ND):
            parts = [self.parts(matrix) for matrix in ("gate_up", "down")]
            return mix_on_host(x_ND, weights_Nk, experts_Nk, self.num_experts, self.kernel, *parts)
        if all(bfloat16_products.served(x_ND, matrix) for matrix in matrices):
            gate_up, down = (partial(bfloat16_products.multiply_groups, weight_ENK=matrix) for matrix in matrices)
            return mix_sorted(x_ND, weights_Nk, experts_Nk, self.num_experts, gate_up, down)
        return mix_experts(x_ND, weights_Nk, experts_Nk, self.num_experts, self.projections())
