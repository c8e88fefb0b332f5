"""Makes room in a model for some of its experts, of every layer the same ones."""

import torch

from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.nn.experts import Experts
from gesso.nn.quant.layers import QuantizedExperts


def keep_experts(model: DiffusionGemma, count: int) -> None:
    """Gives every layer of a model without storage `count` experts in the place of all."""
    for _, _, block in model.blocks():
        experts: Experts | QuantizedExperts = block.experts
        (_, hidden), (_, width) = experts.shapes
        with torch.device("meta"):
            if isinstance(experts, QuantizedExperts):
                fewer: Experts | QuantizedExperts = QuantizedExperts(hidden, width, count, experts.form)
            else:
                fewer = Experts(hidden, width, count).to(experts.down_proj.dtype)
        setattr(block, "experts", fewer)  # noqa: B010


def is_of_experts(name: str) -> bool:
    """Says whether a tensor has a part for each expert, along its first dimension."""
    return ".experts." in name
