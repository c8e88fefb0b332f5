"""Defines a linear map between two clamps, as some vision towers have it."""

import torch
from torch import Tensor

from gesso.nn.linear import Linear


class ClippedLinear(Linear):
    """Computes `clamp(linear(clamp(x)))` without bias; the four bounds come with the weights."""

    input_min: Tensor
    input_max: Tensor
    output_min: Tensor
    output_max: Tensor

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__(in_features, out_features, bias=False)
        for side in ("input", "output"):
            self.register_buffer(f"{side}_min", torch.tensor(-float("inf")))
            self.register_buffer(f"{side}_max", torch.tensor(float("inf")))

    def forward(self, x: Tensor) -> Tensor:
        out = super().forward(torch.clamp(x, self.input_min, self.input_max))
        return torch.clamp(out, self.output_min, self.output_max)
