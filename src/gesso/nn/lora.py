"""Adds low-rank deltas (LoRA, arXiv 2106.09685) to frozen layers.

A wrapped layer computes `base(x) + scale * B(A(dropout(x)))`. The wrapped module is the attribute `base`, so a
model with deltas has the same layers in the same places, and merging is putting `base` back with its weight changed.

    R rank   E experts   F expert width   D hidden
"""

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gesso.nn.experts import Experts, held_part
from gesso.nn.grouped_products import ALIGNMENT, groups_in_training, multiply_groups
from gesso.nn.linear import linear
from gesso.nn.mixtures import GroupedProjection, Projection, mix_experts, mix_in_training
from gesso.nn.quant.layers import QuantizedExperts, QuantizedLinear


def drawn(*shape: int, device: torch.device) -> nn.Parameter:
    """Draws A uniformly, as PEFT does, so that rank and learning rate mean what they mean there."""
    bound = shape[-1] ** -0.5
    return nn.Parameter(torch.empty(*shape, device=device).uniform_(-bound, bound))


def zeros(*shape: int, device: torch.device) -> nn.Parameter:
    """Sets B to zero, so that training starts from the base model exactly."""
    return nn.Parameter(torch.zeros(*shape, device=device))


class LoraLinear(nn.Module):
    """Adds a delta to a linear layer: A [R, in], B [out, R], both fp32."""

    def __init__(self, base: nn.Linear | QuantizedLinear, rank: int, scale: float, dropout: float = 0.0) -> None:
        super().__init__()
        self.base = base
        self.scale = scale
        self.dropout = dropout
        self.lora_A = drawn(rank, base.in_features, device=device_of(base))
        self.lora_B = zeros(base.out_features, rank, device=device_of(base))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.base(x)
        return out + _delta(x, *self.matrices(self.causal), self.scale, self.dropout if self.training else 0.0)

    @property
    def causal(self) -> bool:
        """Says whether the pass under way is the encoder's, where that makes a difference."""
        return False

    def matrices(self, causal: bool) -> tuple[nn.Parameter, nn.Parameter]:  # noqa: ARG002
        """Returns A and B of the encoder's passes or of the denoiser's: the same here."""
        return self.lora_A, self.lora_B

    def delta(self) -> Tensor:
        """Returns the delta of the weight, [out, in], fp32."""
        return self.scale * (self.lora_B @ self.lora_A)


class LoraExperts(nn.Module):
    """Adds a delta to every matrix of every fused expert."""

    def __init__(self, base: Experts | QuantizedExperts, rank: int, scale: float, dropout: float = 0.0) -> None:
        super().__init__()
        self.base = base
        self.scale = scale
        self.dropout = dropout
        device = device_of(base)
        count, (wide, hidden), (_, width) = base.num_experts, *base.shapes
        self.gate_up_lora_A = drawn(count, rank, hidden, device=device)
        self.gate_up_lora_B = zeros(count, wide, rank, device=device)
        self.down_lora_A = drawn(count, rank, width, device=device)
        self.down_lora_B = zeros(count, hidden, rank, device=device)

    @property
    def num_experts(self) -> int:
        return self.base.num_experts

    def projections(self) -> Iterator[tuple[Projection, Projection]]:
        """Yields gate_up and down of every expert, with their deltas."""
        deltas = zip(*(held_part(matrix).unbind() for matrix in self.matrices(self.causal)), strict=True)
        for (gate_up, down), (gate_up_A, gate_up_B, down_A, down_B) in zip(
            self.base.projections(), deltas, strict=True
        ):
            yield self._with(gate_up, gate_up_A, gate_up_B), self._with(down, down_A, down_B)

    @property
    def causal(self) -> bool:
        """Says whether the pass under way is the encoder's, where that makes a difference."""
        return False

    def matrices(self, causal: bool) -> tuple[nn.Parameter, nn.Parameter, nn.Parameter, nn.Parameter]:  # noqa: ARG002
        """Returns A and B of gate_up and of down, of the encoder's passes or of the denoiser's: the same here."""
        return self.gate_up_lora_A, self.gate_up_lora_B, self.down_lora_A, self.down_lora_B

    def grouped(self) -> tuple[GroupedProjection, GroupedProjection]:
        """Returns gate_up and down of all experts, with their deltas, for rows in bfloat16."""
        gate_up_A, gate_up_B, down_A, down_B = self.matrices(self.causal)
        gate_up, down = self.base.grouped()
        return self._with_groups(gate_up, gate_up_A, gate_up_B), self._with_groups(down, down_A, down_B)

    def forward(self, x_ND: Tensor, weights_Nk: Tensor, experts_Nk: Tensor) -> Tensor:
        gate_up_A, _, down_A, _ = self.matrices(self.causal)
        if groups_in_training(x_ND, gate_up_A, down_A):  # of any rank: it is filled up
            return mix_in_training(x_ND, weights_Nk, experts_Nk, self.num_experts, *self.grouped())
        return mix_experts(x_ND, weights_Nk, experts_Nk, self.num_experts, self.projections())

    def deltas(self) -> tuple[Tensor, Tensor]:
        """Returns the deltas of gate_up_proj and down_proj, fp32."""
        return (
            self.scale * (self.gate_up_lora_B @ self.gate_up_lora_A),
            self.scale * (self.down_lora_B @ self.down_lora_A),
        )

    def _with(self, project: Projection, a: Tensor, b: Tensor) -> Projection:
        dropout = self.dropout if self.training else 0.0
        return lambda x: project(x) + _delta(x, a, b, self.scale, dropout)

    def _with_groups(self, project: GroupedProjection, a_ERD: Tensor, b_EFR: Tensor) -> GroupedProjection:
        dropout = self.dropout if self.training else 0.0

        def projected(x_MD: Tensor, ends_E: Tensor) -> Tensor:
            out_MF, dropped = project(x_MD, ends_E), F.dropout(x_MD, dropout) if dropout else x_MD
            # Ranks of zeros, which change nothing, where rows of R numbers would not be aligned.
            fill = -a_ERD.shape[1] % (ALIGNMENT // x_MD.itemsize)
            for matrix in (F.pad(a_ERD, (0, 0, 0, fill)), F.pad(b_EFR, (0, fill))) if fill else (a_ERD, b_EFR):
                dropped = multiply_groups(dropped, ends_E, matrix.to(x_MD.dtype))
            return out_MF + dropped * self.scale

        return projected


def _delta(x: Tensor, a: Tensor, b: Tensor, scale: float, dropout: float) -> Tensor:
    if dropout:
        x = F.dropout(x, dropout)
    return linear(linear(x, a.to(x.dtype)), b.to(x.dtype)) * scale


def device_of(module: nn.Module) -> torch.device:
    tensor: Tensor = next(iter(module.state_dict().values()))
    return tensor.device
