"""Implements the GeGLU feed-forward (arXiv 2002.05202) with the tanh approximation of GELU."""

from torch import Tensor, nn

from gesso.nn.elementwise import gelu
from gesso.nn.linear import Linear


class MLP(nn.Module):
    """Computes `down(gelu(gate(x)) * up(x))`, without biases."""

    def __init__(self, hidden_size: int, intermediate_size: int) -> None:
        super().__init__()
        self.gate_proj = Linear(hidden_size, intermediate_size, bias=False)
        self.up_proj = Linear(hidden_size, intermediate_size, bias=False)
        self.down_proj = Linear(intermediate_size, hidden_size, bias=False)

    def forward(self, x_ND: Tensor) -> Tensor:
        gated = gelu(self.gate_proj(x_ND)) * self.up_proj(x_ND)
        out: Tensor = self.down_proj(gated)
        return out
