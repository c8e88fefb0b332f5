"""Linear maps by the faster of two libraries, with rows aligned so that none depends on its neighbours.

On a CPU PyTorch hands fp32 matmuls to MKL, which on AMD processors uses half of the vector width; oneDNN, which
PyTorch brings along too, uses all of it. Both add up in fp32. oneDNN has no gradient here, so training stays with
PyTorch itself.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gesso.nn.row_alignment import multiply_aligned

_ONEDNN = (
    torch.ops.mkldnn._linear_pointwise.default
    if torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    else None
)

SMALL = 1 << 15
"""Weights of fewer numbers stay with PyTorch: there a call costs more than its arithmetic."""
LONG = 512
"""Weights of more input features do not: MKL cuts so long a sum by the number of rows."""


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`x @ weight.T + bias`, [..., in] -> [..., out]; without a gradient, a row's bits do not depend on other rows.

    Which library is asked depends on types, devices and the weight, never on the number of rows.
    """
    if (
        x.device.type != "cpu"
        or torch.is_grad_enabled()
        or x.dtype != weight.dtype
        or torch.is_autocast_enabled("cpu")
        or torch.compiler.is_compiling()
        or not x.numel()
    ):
        return F.linear(x, weight, bias)
    large = weight.numel() >= SMALL or weight.shape[1] > LONG
    if large and x.dtype == torch.float32 and _ONEDNN is not None:
        return multiply_aligned(_by_onednn, x, weight, bias)
    return multiply_aligned(F.linear, x, weight, bias)


def _by_onednn(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    assert _ONEDNN is not None
    out: Tensor = _ONEDNN(x, weight, bias, "none", [], "")
    return out


class Linear(nn.Linear):
    """`nn.Linear` over `linear`."""

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)
