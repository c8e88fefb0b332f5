"""Linear maps by the faster of two libraries.

On a CPU PyTorch hands fp32 matmuls to MKL, which on AMD processors uses half of the vector width; oneDNN, which
PyTorch brings along too, uses all of it. Both add up in fp32. oneDNN has no gradient here, so training stays with
PyTorch itself.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

_ONEDNN = (
    torch.ops.mkldnn._linear_pointwise.default
    if torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    else None
)

SMALL = 1 << 15
"""Weights of fewer numbers stay with PyTorch: there a call costs more than its arithmetic."""


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`x @ weight.T + bias`, [..., out].

    Which library is asked depends on types, devices and the weight, never on the number of rows: a row's result must
    not depend on how many stand beside it.
    """
    if (
        _ONEDNN is not None
        and weight.numel() >= SMALL
        and x.device.type == "cpu"
        and x.dtype == weight.dtype == torch.float32
        and not torch.is_grad_enabled()
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
        and x.numel()
    ):
        out: Tensor = _ONEDNN(x, weight, bias, "none", [], "")
        return out
    return F.linear(x, weight, bias)


class Linear(nn.Linear):
    """`nn.Linear` over `linear`."""

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)
