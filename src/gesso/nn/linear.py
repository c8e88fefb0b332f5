"""Computes linear maps by the library that is fastest among those that keep a row's bits.

On a CPU PyTorch hands fp32 matmuls to MKL, which on AMD processors uses half of the vector width; oneDNN, which
PyTorch brings along too, uses all of it. Both add up in fp32. Where both are slow in bfloat16, or there is AMX, kernels
of our own multiply (`bfloat16_products`). Neither those nor oneDNN have gradients here: PyTorch itself trains.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

from gesso.nn.bfloat16_products import multiply, served
from gesso.nn.compiled_training import narrows
from gesso.nn.pass_threads import all_threads
from gesso.nn.row_alignment import Multiply, multiply_aligned

SMALL = 1 << 15
"""Weights of fewer numbers go to PyTorch first: there a call of oneDNN costs more than its arithmetic."""


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Computes `x @ weight.T + bias`, [..., in] -> [..., out]; without a gradient, a row's bits do not depend on other
    rows.

    Which library is asked depends on types, devices and the weight, never on the number of rows.
    """
    if served(x, weight) and (bias is None or bias.dtype == weight.dtype) and x.shape[-1] == weight.shape[-1]:
        with all_threads():
            return multiply(x, weight, bias)
    if (
        not x.is_cpu
        or torch.is_grad_enabled()
        or x.dtype != weight.dtype
        or torch.is_autocast_enabled("cpu")
        or torch.compiler.is_compiling()
        or is_in_torch_dispatch_mode()  # a pass that is traced: there are no numbers to measure
        or not x.numel()
    ):
        out = F.linear(x, weight, bias)
        return out.float() if narrows(x) else out
    ways = _NARROW
    if x.dtype == torch.float32:
        ways = _FLOAT32 if weight.numel() < SMALL else _LARGE_FLOAT32
    with all_threads():  # by which bits may depend on the order of a sum
        return multiply_aligned(ways, x, weight, bias)


def _by_onednn(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    out: Tensor = torch.ops.mkldnn._linear_pointwise.default(x, weight, bias, "none", [], "")
    return out


_ONEDNN = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
_FLOAT32: tuple[Multiply, ...] = (F.linear, _by_onednn) if _ONEDNN else (F.linear,)
_LARGE_FLOAT32 = _FLOAT32[::-1]


def _in_float32(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Multiplies narrower numbers in fp32, rounding once at the end."""
    return _LARGE_FLOAT32[0](x.float(), weight.float(), None if bias is None else bias.float()).to(x.dtype)


_NARROW: tuple[Multiply, ...] = (F.linear, _in_float32)


class Linear(nn.Linear):
    """Wraps `linear` as `nn.Linear` does `F.linear`."""

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)


def apply_together(x: Tensor, *layers: nn.Module) -> list[Tensor]:
    """Applies several layers to the same rows; those that know how to share the work do, to the same bits.

    A kind of layer shares by a static method `together(layers, x)`, which returns None where it cannot.
    """
    together = getattr(layers[0], "together", None)
    shared: list[Tensor] | None = None if together is None else together(layers, x)
    return [layer(x) for layer in layers] if shared is None else shared
