"""Frozen weights in few bits: linear layers and fused experts over any format, and the format of QLoRA, NF4.

A format packs a matrix into a few tensors. A weight is turned back into the activations' type inside the matmul,
forward and backward, a slab of its rows at a time, and is never kept.

NF4 (arXiv 2305.14314): sixteen levels, the quantiles of a standard normal, scaled so that the largest magnitude of a
group along the input is exact. A weight takes 4 bits and its share of a bfloat16 scale: 4.25 bits with groups of 64.

    E experts   F expert width   D hidden   S group size
"""

import functools
import math
from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn

from gesso.kernels import usable
from gesso.nn.experts import Experts, Projection, mix_experts, mix_sorted
from gesso.nn.linear import linear

GROUP = 64
SMALLEST_GROUP = 16
CPU_SLAB = 1 << 19
"""Weights that are turned back at a time on a CPU: 1 MiB of bfloat16, which stays in a core's cache."""
GPU_SLAB = 1 << 24
"""The same on an accelerator, where few large kernels win: 32 MiB."""


class Format(Protocol):
    """How a matrix [out, in] is packed. Rows of every part are rows of the matrix: a slab of it is a slab of each."""

    parts: ClassVar[tuple[str, ...]]
    """Names of the tensors that hold it."""
    kernel: ClassVar[str]
    """Its name in `kernels.packed`."""

    def empty(self, rows: int, columns: int) -> tuple[Tensor, ...]:
        """The parts of a matrix of this shape, not filled in.

        Raises:
            ValueError: the format has no room for so many columns.
        """

    def quantize(self, weight: Tensor) -> tuple[Tensor, ...]:
        """The parts of `weight` [out, in]."""

    def unpack(self, parts: tuple[Tensor, ...], dtype: torch.dtype) -> tuple[Tensor, Tensor | None]:
        """The matrix in `dtype`, in memory of its own, and what its rows have still to be multiplied by, [out], where
        that is not one."""


def restore(parts: tuple[Tensor, ...], form: Format, dtype: torch.dtype) -> Tensor:
    """The matrix [out, in] that `parts` stand for, in `dtype`."""
    weight, factor = form.unpack(parts, dtype)
    return weight if factor is None else weight.mul_(factor[:, None])


def _levels() -> Tensor:
    """The 16 levels: 8 quantiles of the positive half, 7 of the negative, and zero, in [-1, 1]."""
    # Half a bin is left out at each end, averaged over the two halves' bin counts, as the paper has it.
    offset = 0.5 * ((1 - 1 / (2 * 15)) + (1 - 1 / (2 * 16)))
    normal = torch.distributions.Normal(0.0, 1.0)
    positive = normal.icdf(torch.linspace(offset, 0.5, 9)[:-1])
    negative = -normal.icdf(torch.linspace(offset, 0.5, 8)[:-1])
    levels = torch.cat((negative, torch.zeros(1), positive)).sort().values
    return levels / levels.abs().max()


LEVELS = _levels()


@functools.cache
def _levels_on(device: torch.device, dtype: torch.dtype) -> Tensor:
    return LEVELS.to(device, dtype)


_EDGES = (LEVELS[1:] + LEVELS[:-1]) / 2


def group_size(features: int) -> int:
    """Input features that share a scale: `GROUP`, or the largest power of two below it that divides `features`.

    Raises:
        ValueError: only groups smaller than `SMALLEST_GROUP` do.
    """
    size = math.gcd(features, GROUP)
    if size < SMALLEST_GROUP:
        raise ValueError(f"{features} input features are no multiple of {SMALLEST_GROUP}: too odd for 4 bits")
    return size


def quantize(weight: Tensor) -> tuple[Tensor, Tensor]:
    """`weight` [..., out, in] as two codes a byte [..., out, in / 2], uint8, and bf16 scales [..., out, in / S]."""
    if weight.dim() == 3:  # an expert at a time: the fp32 copies stay small
        parts = [quantize(expert) for expert in weight]
        return torch.stack([codes for codes, _ in parts]), torch.stack([scales for _, scales in parts])
    groups = weight.float().unflatten(-1, (-1, group_size(weight.shape[-1])))
    scales = groups.abs().amax(dim=-1).to(torch.bfloat16)
    # Scales are rounded first: codes are the nearest levels to what will be read back.
    unit = groups / scales.float().clamp(min=torch.finfo(torch.float32).tiny)[..., None]
    codes = torch.bucketize(unit, _EDGES.to(weight.device), out_int32=True).to(torch.uint8).flatten(-2)
    return codes[..., 0::2] << 4 | codes[..., 1::2], scales


def dequantize(codes: Tensor, scales: Tensor, dtype: torch.dtype) -> Tensor:
    """The weight [..., out, in] that codes and scales stand for, in `dtype`."""
    levels = _levels_on(codes.device, dtype)
    halves = torch.stack((codes >> 4, codes & 15), dim=-1).flatten(-2)
    values = levels[halves.int()].unflatten(-1, (scales.shape[-1], -1))
    weight: Tensor = (values * scales.to(dtype)[..., None]).flatten(-2)
    return weight


class NF4:
    """See the top of this file."""

    kernel: ClassVar[str] = "nf4"
    parts: ClassVar[tuple[str, ...]] = ("codes", "scales")

    def empty(self, rows: int, columns: int) -> tuple[Tensor, ...]:
        groups = columns // group_size(columns)
        codes = torch.empty(rows, columns // 2, dtype=torch.uint8)
        return codes, torch.empty(rows, groups, dtype=torch.bfloat16)

    def quantize(self, weight: Tensor) -> tuple[Tensor, ...]:
        return quantize(weight)

    def unpack(self, parts: tuple[Tensor, ...], dtype: torch.dtype) -> tuple[Tensor, Tensor | None]:
        codes, scales = parts
        return dequantize(codes, scales, dtype), None


def _project(x: Tensor, parts: tuple[Tensor, ...], form: Format) -> Tensor:
    """x @ W.T, a slab of W's rows at a time. Slabs do not depend on the number of rows of x, so that a row's result
    does not depend on how many stand beside it."""
    slab = max(1, (CPU_SLAB if x.device.type == "cpu" else GPU_SLAB) // x.shape[-1])
    pieces = []
    for slabs in zip(*(part.split(slab) for part in parts), strict=True):
        if x.dtype == torch.float16:  # which a sum over whole codes could overflow
            pieces.append(linear(x, restore(slabs, form, x.dtype)))
            continue
        weight, factor = form.unpack(slabs, x.dtype)
        out = linear(x, weight)
        pieces.append(out if factor is None else (out * factor).to(x.dtype))
    return pieces[0] if len(pieces) == 1 else torch.cat(pieces, dim=-1)


def in_kernel(x: Tensor) -> bool:
    """Whether one kernel turns weights back and multiplies: on CUDA with Triton, without gradient."""
    return usable(x.device) and not torch.is_grad_enabled() and not torch.is_autocast_enabled(x.device.type)


def _by_kernel(x_MD: Tensor, ends_E: Tensor | None, parts: tuple[Tensor, ...], form: Format) -> Tensor:
    """See `kernels.packed.matmul`."""
    from gesso.kernels import packed

    return packed.matmul(x_MD, form.kernel, parts, ends_E, _levels_on(x_MD.device, x_MD.dtype))


class _Matmul(torch.autograd.Function):
    """x @ W.T with W packed: what is kept for the backward pass is the parts."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, form: Format, *parts: Tensor) -> Tensor:
        ctx.save_for_backward(*parts)
        ctx.form = form
        return _project(x, parts, form)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,), parts = grads, ctx.saved_tensors  # which may be asked for once
        return grad @ restore(parts, ctx.form, grad.dtype), None, *(None for _ in parts)


def matmul(x: Tensor, parts: tuple[Tensor, ...], form: Format) -> Tensor:
    """x [..., in] times the transposed weight, [..., out]; gradients reach x only."""
    if not x.is_meta and torch.is_autocast_enabled(x.device.type):
        x = x.to(torch.get_autocast_dtype(x.device.type))
    if in_kernel(x):
        return _by_kernel(x.reshape(-1, x.shape[-1]), None, parts, form).view(*x.shape[:-1], len(parts[0]))
    if not torch.is_grad_enabled():
        return _project(x, parts, form)
    out: Tensor = _Matmul.apply(x, form, *parts)  # type: ignore[no-untyped-call]
    return out


class QuantizedLinear(nn.Module):
    """A frozen linear layer in few bits; a bias keeps its type."""

    bias: Tensor | None

    def __init__(self, in_features: int, out_features: int, bias: bool = False, form: Format | None = None) -> None:
        """`form` is NF4 where none is given."""
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.form: Format = form or NF4()
        for name, part in zip(self.form.parts, self.form.empty(out_features, in_features), strict=True):
            self.register_buffer(name, part)
        self.register_buffer("bias", torch.empty(out_features) if bias else None)

    def forward(self, x: Tensor) -> Tensor:
        out = matmul(x, tuple(self.get_buffer(name) for name in self.form.parts), self.form)
        return out if self.bias is None else out + self.bias


class QuantizedExperts(nn.Module):
    """Frozen fused experts in few bits; an expert is read back only when it has tokens."""

    def __init__(self, hidden_size: int, intermediate_size: int, num_experts: int, form: Format | None = None) -> None:
        """`form` is NF4 where none is given."""
        super().__init__()
        self.shapes = ((2 * intermediate_size, hidden_size), (hidden_size, intermediate_size))
        self.num_experts = num_experts
        self.form: Format = form or NF4()
        for matrix, shape in zip(("gate_up", "down"), self.shapes, strict=True):
            for name, part in zip(self.form.parts, self.form.empty(*shape), strict=True):
                self.register_buffer(f"{matrix}_{name}", part.new_empty(num_experts, *part.shape))

    def parts(self, matrix: str) -> tuple[Tensor, ...]:
        """What "gate_up" or "down" of all experts is held in."""
        return tuple(self.get_buffer(f"{matrix}_{name}") for name in self.form.parts)

    def projections(self) -> Iterator[tuple[Projection, Projection]]:
        """gate_up and down of every expert."""
        gate_up, down = (
            zip(*(part.unbind() for part in self.parts(matrix)), strict=True) for matrix in ("gate_up", "down")
        )
        for parts in zip(gate_up, down, strict=True):
            first, second = (partial(matmul, parts=part, form=self.form) for part in parts)
            yield first, second

    def forward(self, x_ND: Tensor, weights_Nk: Tensor, experts_Nk: Tensor) -> Tensor:
        """Sum over the chosen experts of weight times expert(x), [N, D]."""
        if in_kernel(x_ND):
            gate_up, down = (
                partial(_by_kernel, parts=self.parts(name), form=self.form) for name in ("gate_up", "down")
            )
            return mix_sorted(x_ND, weights_Nk, experts_Nk, self.num_experts, gate_up, down)
        return mix_experts(x_ND, weights_Nk, experts_Nk, self.num_experts, self.projections())


def quantized_like(module: nn.Module, form: Format | None = None) -> nn.Module | None:
    """An empty module in few bits of the shape of `module`, or None for a kind of module that stays as it is.

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
    """The buffers that hold the weight `name` of a layer that `quantized_like` replaces."""
    stem, _, kind = name.rpartition(".")
    prefix = f"{stem}." if kind == "weight" else f"{stem}.{kind.removesuffix('_proj')}_"
    return tuple(f"{prefix}{part}" for part in form.parts)


def quantized_tensors(name: str, tensor: Tensor, form: Format | None = None) -> dict[str, Tensor]:
    """The buffers that hold the tensor `name` of a layer that `quantized_like` replaces: a weight becomes its parts,
    a bias stays."""
    if name.endswith(".bias"):
        return {name: tensor}
    form = form or NF4()
    if tensor.dim() == 3:  # an expert at a time: the fp32 copies stay small
        packed = tuple(torch.stack(parts) for parts in zip(*map(form.quantize, tensor), strict=True))
    else:
        packed = form.quantize(tensor)
    return dict(zip(part_names(name, form), packed, strict=True))
