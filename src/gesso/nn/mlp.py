"""Implements the GeGLU feed-forward (arXiv 2002.05202) with the tanh approximation of GELU."""

from torch import Tensor, nn

from gesso.nn.gated_gelu import gated_gelu
from gesso.nn.linear import Linear, apply_together


class MLP(nn.Module):
    """Computes `down(gelu(gate(x)) * up(x))`, without biases."""

    def __init__(self, hidden_size: int, intermediate_size: int) -> None:
        super().__init__()
        self.gate_proj = Linear(hidden_size, intermediate_size, bias=False)
        self.up_proj = Linear(hidden_size, intermediate_size, bias=False)
        self.down_proj = Linear(intermediate_size, hidden_size, bias=False)

    def forward(self, x_ND: Tensor) -> Tensor:
        gate, up = apply_together(x_ND, self.gate_proj, self.up_proj)
        out: Tensor = self.down_proj(gated_gelu(gate, up))
        return out
