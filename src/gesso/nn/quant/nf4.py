"""Implements NF4 (arXiv 2305.14314), the 4-bit format of QLoRA.

A weight is one of sixteen levels, the quantiles of a standard normal, scaled so that the largest magnitude of a group
along the input is exact. It takes 4 bits and its share of a bfloat16 scale: 4.25 bits with groups of 64.

    S group size
"""

import functools
import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

GROUP = 64
SMALLEST_GROUP = 16


def _levels() -> Tensor:
    """The 16 levels: 8 quantiles of the positive half, 7 of the negative, and zero, in [-1, 1]."""
    # Half a bin is left out at each end, averaged over the two halves' bin counts, as the paper has it.
    offset = 0.5 * ((1 - 1 / (2 * 15)) + (1 - 1 / (2 * 16)))
    normal = torch.distributions.Normal(0.0, 1.0)
    positive = normal.icdf(torch.linspace(offset, 0.5, 9, dtype=torch.float32)[:-1])
    negative = -normal.icdf(torch.linspace(offset, 0.5, 8, dtype=torch.float32)[:-1])
    levels = torch.cat((negative, torch.zeros(1, dtype=torch.float32), positive)).sort().values
    return levels / levels.abs().max()


LEVELS = _levels()


@functools.cache
def levels_on(device: torch.device, dtype: torch.dtype) -> Tensor:
    """Returns the 16 levels on a device, in `dtype`; made once for each."""
    return LEVELS.to(device, dtype)


_EDGES = (LEVELS[1:] + LEVELS[:-1]) / 2


def group_size(features: int) -> int:
    """Returns how many input features share a scale: `GROUP`, or the largest power of two below it that divides
    `features`.

    Raises:
        ValueError: only groups smaller than `SMALLEST_GROUP` do.
    """
    size = math.gcd(features, GROUP)
    if size < SMALLEST_GROUP:
        raise ValueError(f"{features} input features are no multiple of {SMALLEST_GROUP}: too odd for 4 bits")
    return size


def quantize(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Packs `weight` [..., out, in] as two codes a byte [..., out, in / 2], uint8, and bf16 scales [..., out, in /
    S]."""
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
    """Returns the weight [..., out, in] that codes and scales stand for, in `dtype`."""
    levels = levels_on(codes.device, dtype)
    halves = torch.stack((codes >> 4, codes & 15), dim=-1).flatten(-2)
    values = levels[halves.int()].unflatten(-1, (scales.shape[-1], -1))
    weight: Tensor = (values * scales.to(dtype)[..., None]).flatten(-2)
    return weight


@dataclass(frozen=True, slots=True)
class NF4:
    """Packs weights as the module's docstring says."""

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
