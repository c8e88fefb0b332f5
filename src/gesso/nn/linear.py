"""Computes linear maps by what is fastest among all that keeps a row's bits.

On a CPU kernels of our own multiply by small fp32 weights (`float32_products`), and in bfloat16 where libraries are
slow or there is AMX (`bfloat16_products`). Other fp32 matmuls PyTorch hands to MKL, which on AMD processors uses half
of the vector width; oneDNN, which PyTorch brings along too, uses all of it. All add up in fp32. Only PyTorch itself has
gradients here.
"""

from collections.abc import Sequence
from typing import ClassVar, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

from gesso.nn import bfloat16_products, float32_products
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
    if (bias is None or bias.dtype == weight.dtype) and x.shape[-1] == weight.shape[-1]:
        if float32_products.served(x, weight):
            return float32_products.multiply(x, weight, bias)
        if bfloat16_products.served(x, weight):
            with all_threads():
                return bfloat16_products.multiply(x, weight, bias)
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

    kernel: ClassVar[str] = float32_products.NAME
    """The name of its weight in `kernels.host.packed`, where kernels read it."""

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)

    @property
    def packed(self) -> tuple[Tensor, ...]:
        """Returns the weight as kernels read it."""
        return (cast("Tensor", self._parameters["weight"]),)

    def read_by_kernels(self) -> bool:
        """Says whether there is a kernel for the weight; asked where kernels are available."""
        return float32_products.reads(*self.packed)

    def on_host(self, x: Tensor) -> bool:
        """Says whether a compiled kernel multiplies `x` on the CPU."""
        return float32_products.served(x, *self.packed)

    @staticmethod
    def together(layers: Sequence[nn.Module], x_ND: Tensor) -> list[Tensor] | None:
        """Applies layers to the same rows in one call, to the same bits; returns None where they are not alike."""
        if x_ND.dim() != 2 or not all(type(layer) is Linear and layer.bias is None for layer in layers):
            return None
        alike = cast("Sequence[Linear]", layers)
        if not all(
            layer.on_host(x_ND) and not layer._forward_hooks and not layer._forward_pre_hooks for layer in alike
        ):
            return None
        return float32_products.multiply_several(x_ND, [layer.packed[0] for layer in alike])


def apply_together(x: Tensor, *layers: nn.Module) -> list[Tensor]:
    """Applies several layers to the same rows; those that know how to share the work do, to the same bits.

    A kind of layer shares by a static method `together(layers, x)`, which returns None where it cannot.
    """
    together = getattr(layers[0], "together", None)
    shared: list[Tensor] | None = None if together is None else together(layers, x)
    return [layer(x) for layer in layers] if shared is None else shared
