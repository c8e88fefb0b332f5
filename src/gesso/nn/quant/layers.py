"""Defines frozen linear layers and fused experts with weights in any quantization format.

E experts   F expert width   D hidden
"""

import operator
from collections.abc import Iterator, Sequence
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn

from gesso.kernels import host
from gesso.nn.experts import Experts
from gesso.nn.grouped_products import groups_in_training
from gesso.nn.host_experts import mix_on_host
from gesso.nn.host_kernels import host_kernels
from gesso.nn.mixtures import GroupedProjection, Projection, mix_experts, mix_in_training, mix_sorted
from gesso.nn.quant import base
from gesso.nn.quant.base import Format, in_kernel, matmul
from gesso.nn.quant.nf4 import NF4


def _buffers(module: nn.Module, names: Sequence[str]) -> tuple[Tensor, ...]:
    """Returns buffers by name; `get_buffer` takes longer than a small product."""
    held = module._buffers
    return tuple(cast("Tensor", held[name]) for name in names)


class QuantizedLinear(nn.Module):
    """Applies a frozen linear layer with a quantized weight; a bias keeps its dtype."""

    bias: Tensor | None
    _asked: tuple[tuple[Tensor, ...], bool] | None = None
    """The parts about which it was asked whether kernels read them, and the answer."""

    def __init__(self, in_features: int, out_features: int, bias: bool = False, form: Format | None = None) -> None:
        """`form` is NF4 where none is given."""
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.form: Format = form or NF4()
        for name, part in zip(self.form.parts, self.form.empty(out_features, in_features), strict=True):
            self.register_buffer(name, part)
        self.register_buffer("bias", torch.empty(out_features) if bias else None)

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() == 2 and not in_kernel(x) and self.on_host(x):
            out = base.multiply_on_host(x, None, self.packed, self.form)
        else:
            out = matmul(x, self.packed, self.form)
        return out if self.bias is None else out + self.bias

    def on_host(self, x: Tensor) -> bool:
        """Says whether a compiled kernel multiplies `x` on the CPU."""
        return host_kernels(x) and self.read_by_kernels()

    def read_by_kernels(self) -> bool:
        """Says whether there is a kernel for these parts; asked where kernels are available."""
        packed = self.packed
        if self._asked is None or not _are_same(self._asked[0], packed):
            self._asked = packed, host.reads(self.form.kernel, packed)
        return self._asked[1]

    @property
    def kernel(self) -> str:
        """Returns the name of the weight in `kernels.host.packed`."""
        return self.form.kernel

    @property
    def packed(self) -> tuple[Tensor, ...]:
        """Returns the packed weight."""
        return _buffers(self, self.form.parts)

    @staticmethod
    def together(layers: Sequence[nn.Module], x_ND: Tensor) -> list[Tensor] | None:
        """Applies layers to the same rows in one call, to the same bits; returns None where they are not alike."""
        if not all(type(layer) is QuantizedLinear and layer.bias is None for layer in layers):
            return None
        alike = cast("Sequence[QuantizedLinear]", layers)
        form = alike[0].form
        if any(layer.form != form for layer in alike):
            return None
        if in_kernel(x_ND):
            return base.multiply_several_in_kernel(x_ND, [layer.packed for layer in alike], form)
        if not host_kernels(x_ND):
            return None
        if not all(layer.read_by_kernels() for layer in alike):
            return None
        return base.multiply_several_on_host(x_ND, [layer.packed for layer in alike], form)


class QuantizedExperts(nn.Module):
    """Applies frozen fused experts with quantized weights; an expert is dequantized only when it has tokens."""

    _asked: tuple[tuple[Tensor, ...], bool] | None = None
    """The parts about which it was asked whether kernels read them, and the answer."""

    def __init__(self, hidden_size: int, intermediate_size: int, num_experts: int, form: Format | None = None) -> None:
        """`form` is NF4 where none is given."""
        super().__init__()
        self.shapes = ((2 * intermediate_size, hidden_size), (hidden_size, intermediate_size))
        self.num_experts = num_experts
        self.form: Format = form or NF4()
        self._names = {matrix: tuple(f"{matrix}_{part}" for part in self.form.parts) for matrix in ("gate_up", "down")}
        for names, shape in zip(self._names.values(), self.shapes, strict=True):
            for name, part in zip(names, self.form.empty(*shape), strict=True):
                self.register_buffer(name, part.new_empty(num_experts, *part.shape))

    @property
    def kernel(self) -> str:
        """Returns the name of the weights in `kernels.host.packed`."""
        return self.form.kernel

    def parts(self, matrix: str) -> tuple[Tensor, ...]:
        """Returns the packed "gate_up" or "down" of all experts."""
        return _buffers(self, self._names[matrix])

    def on_host(self, x: Tensor) -> bool:
        """Says whether compiled kernels multiply `x` on the CPU."""
        return host_kernels(x) and self.read_by_kernels()

    def read_by_kernels(self) -> bool:
        """Says whether there are kernels for these parts; asked where kernels are available."""
        gate_up, down = (self.parts(matrix) for matrix in self._names)
        if self._asked is None or not _are_same(self._asked[0], (*gate_up, *down)):
            self._asked = (*gate_up, *down), all(host.reads(self.form.kernel, parts) for parts in (gate_up, down))
        return self._asked[1]

    def projections(self) -> Iterator[tuple[Projection, Projection]]:
        """Yields gate_up and down of every expert."""
        gate_up, down = (
            zip(*(part.unbind() for part in self.parts(matrix)), strict=True) for matrix in ("gate_up", "down")
        )
        for parts in zip(gate_up, down, strict=True):
            first, second = (partial(matmul, parts=part, form=self.form) for part in parts)
            yield first, second

    def grouped(self) -> tuple[GroupedProjection, GroupedProjection]:
        """Returns gate_up and down of all experts, for rows in bfloat16; gradients reach the rows only."""
        parts = [self.parts(matrix) for matrix in self._names]
        gate_up, down = (partial(base.multiply_packed_groups, parts=part, form=self.form) for part in parts)
        return gate_up, down

    def forward(self, x_ND: Tensor, weights_Nk: Tensor, experts_Nk: Tensor) -> Tensor:
        """Sums weight times expert(x) over the chosen experts, [N, D]."""
        if groups_in_training(x_ND, columns=(into for _, into in self.shapes)):
            return mix_in_training(x_ND, weights_Nk, experts_Nk, self.num_experts, *self.grouped())
        if in_kernel(x_ND):
            parts = [self.parts(matrix) for matrix in self._names]
            # Fewer rows are laid out before they are repeated for every expert than after it.
            placed_ND = base.place_in_kernel(x_ND, parts[0], self.form)
            gate_up = partial(base.multiply_placed, parts=parts[0], form=self.form)
            down = partial(base.multiply_in_kernel, parts=parts[1], form=self.form)
            return mix_sorted(placed_ND, weights_Nk, experts_Nk, self.num_experts, gate_up, down)
        if self.on_host(x_ND):
            of_all = [self.parts(matrix) for matrix in self._names]
            return mix_on_host(x_ND, weights_Nk, experts_Nk, self.num_experts, self.kernel, *of_all)
        return mix_experts(x_ND, weights_Nk, experts_Nk, self.num_experts, self.projections())


def _are_same(known: tuple[Tensor, ...], parts: tuple[Tensor, ...]) -> bool:
    return all(map(operator.is_, known, parts))


def quantized_like(module: nn.Module, form: Format | None = None) -> nn.Module | None:
    """Makes an empty quantized module of the shape of `module`; returns None for a kind of module that stays as it is.

    Raises:
        ValueError: its input features cannot be grouped.
    """
    if isinstance(module, nn.Linear):
        return QuantizedLinear(module.in_features, module.out_features, module.bias is not None, form)
    if isinstance(module, Experts):
        (_, hidden), (_, width) = module.shapes
        return QuantizedExperts(hidden, width, module.num_experts, form)
    return None


def part_names(name: str, form: Format) -> tuple[str, ...]:
    """Returns the names of the buffers that hold the weight `name` of a layer that `quantized_like` replaces."""
    stem, _, kind = name.rpartition(".")
    prefix = f"{stem}." if kind == "weight" else f"{stem}.{kind.removesuffix('_proj')}_"
    return tuple(f"{prefix}{part}" for part in form.parts)


def quantized_tensors(name: str, tensor: Tensor, form: Format | None = None) -> dict[str, Tensor]:
    """Returns the buffers that hold the tensor `name` of a layer that `quantized_like` replaces: a weight becomes its
    parts, a bias stays."""
    if name.endswith(".bias"):
        return {name: tensor}
    form = form or NF4()
    if tensor.dim() == 3:  # an expert at a time: the fp32 copies stay small
        packed = tuple(torch.stack(parts) for parts in zip(*map(form.quantize, tensor), strict=True))
    else:
        packed = form.quantize(tensor)
    return dict(zip(part_names(name, form), packed, strict=True))
