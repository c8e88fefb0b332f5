"""Frozen weights in 4 bits: NF4 (QLoRA, arXiv 2305.14314) in groups along the input, fused experts included.

The sixteen levels are quantiles of a standard normal, scaled so that a group's largest magnitude is exact. A weight
takes 4 bits and its share of a bfloat16 scale: 4.25 bits with groups of 64. It is turned back into the
activations' type inside the matmul, forward and backward, one layer or one expert at a time, and is never kept.

    E experts   F expert width   D hidden   S group size
"""

import functools
import math
from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor, nn

from gesso.nn.experts import Experts, Projection, mix_experts

GROUP = 64
SMALLEST_GROUP = 16


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


class _Matmul(torch.autograd.Function):
    """x @ W.T with W in 4 bits: what is kept for the backward pass is the 4 bits."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, x: Tensor, codes: Tensor, scales: Tensor) -> Tensor:
        ctx.save_for_backward(codes, scales)
        return x @ dequantize(codes, scales, x.dtype).T

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, *grads: Tensor) -> tuple[Tensor, None, None]:
        codes, scales = ctx.saved_tensors  # type: ignore[attr-defined]
        (grad,) = grads
        return grad @ dequantize(codes, scales, grad.dtype), None, None


def matmul(x: Tensor, codes: Tensor, scales: Tensor) -> Tensor:
    """x [..., in] times the transposed weight, [..., out]; gradients reach x only."""
    if not x.is_meta and torch.is_autocast_enabled(x.device.type):
        x = x.to(torch.get_autocast_dtype(x.device.type))
    out: Tensor = _Matmul.apply(x, codes, scales)  # type: ignore[no-untyped-call]
    return out


class QuantizedLinear(nn.Module):
    """A frozen linear layer in 4 bits; a bias keeps its type."""

    codes: Tensor
    scales: Tensor
    bias: Tensor | None

    def __init__(self, in_features: int, out_features: int, bias: bool = False) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.register_buffer("codes", torch.empty(out_features, in_features // 2, dtype=torch.uint8))
        groups = in_features // group_size(in_features)
        self.register_buffer("scales", torch.empty(out_features, groups, dtype=torch.bfloat16))
        self.register_buffer("bias", torch.empty(out_features) if bias else None)

    def forward(self, x: Tensor) -> Tensor:
        out = matmul(x, self.codes, self.scales)
        return out if self.bias is None else out + self.bias


class QuantizedExperts(nn.Module):
    """Frozen fused experts in 4 bits; an expert is read back only when it has tokens."""

    gate_up_codes: Tensor
    gate_up_scales: Tensor
    down_codes: Tensor
    down_scales: Tensor

    def __init__(self, hidden_size: int, intermediate_size: int, num_experts: int) -> None:
        super().__init__()
        self.shapes = ((2 * intermediate_size, hidden_size), (hidden_size, intermediate_size))
        for name, (rows, columns) in zip(("gate_up", "down"), self.shapes, strict=True):
            codes = torch.empty(num_experts, rows, columns // 2, dtype=torch.uint8)
            self.register_buffer(f"{name}_codes", codes)
            scales = torch.empty(num_experts, rows, columns // group_size(columns), dtype=torch.bfloat16)
            self.register_buffer(f"{name}_scales", scales)

    @property
    def num_experts(self) -> int:
        return self.gate_up_codes.shape[0]

    def projections(self) -> Iterator[tuple[Projection, Projection]]:
        """gate_up and down of every expert."""
        weights = (self.gate_up_codes, self.gate_up_scales, self.down_codes, self.down_scales)
        for gate_up_codes, gate_up_scales, down_codes, down_scales in zip(*weights, strict=True):
            yield (
                partial(matmul, codes=gate_up_codes, scales=gate_up_scales),
                partial(matmul, codes=down_codes, scales=down_scales),
            )

    def forward(self, x_ND: Tensor, weights_Nk: Tensor, experts_Nk: Tensor) -> Tensor:
        return mix_experts(x_ND, weights_Nk, experts_Nk, self.num_experts, self.projections())


def quantized_like(module: nn.Module) -> nn.Module | None:
    """An empty 4-bit module of the shape of `module`, or None for a kind of module that stays as it is.

    Raises:
        ValueError: its input features cannot be grouped.
    """
    if isinstance(module, nn.Linear):
        return QuantizedLinear(module.in_features, module.out_features, module.bias is not None)
    if isinstance(module, Experts):
        (_, hidden), (_, width) = module.shapes
        return QuantizedExperts(hidden, width, module.num_experts)
    return None


def quantized_tensors(name: str, tensor: Tensor) -> dict[str, Tensor]:
    """The buffers that hold the tensor `name` of a layer that `quantized_like` replaces: a weight becomes codes and
    scales, a bias stays."""
    stem, _, kind = name.rpartition(".")
    if kind == "bias":
        return {name: tensor}
    prefix = f"{stem}." if kind == "weight" else f"{stem}.{kind.removesuffix('_proj')}_"
    codes, scales = quantize(tensor)
    return {f"{prefix}codes": codes, f"{prefix}scales": scales}
