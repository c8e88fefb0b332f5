"""Packs weights in 8 or 4 bits for inference: integers and a scale for a row, or a scale and an offset for a group.

On CPUs kernels of gesso's own multiply by what is packed (`kernels.host`). PyTorch's (`_weight_int8pack_mm`,
`_weight_int4pack_mm_for_cpu`) are not used: they go through the weights once for every row of activations. Where there
is no kernel weights are dequantized a tile at a time, and multiplied by the library that multiplies plain ones.

    S group size
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

GROUP_SIZES = (32, 64, 128)
INT8_TOP, INT4_TOP = 127, 15


@dataclass(frozen=True, slots=True)
class Int8:
    """Packs weights as whole numbers from -127 to 127 times an fp32 scale for each row (output feature)."""

    kernel: ClassVar[str] = "int8"
    parts: ClassVar[tuple[str, ...]] = ("codes", "scales")

    def empty(self, rows: int, columns: int) -> tuple[Tensor, ...]:
        return torch.empty(rows, columns, dtype=torch.int8), torch.empty(rows, dtype=torch.float32)

    def quantize(self, weight: Tensor) -> tuple[Tensor, ...]:
        weight = weight.float()
        scales = weight.abs().amax(dim=-1) / INT8_TOP
        return _nearest(weight, scales[:, None], -INT8_TOP, INT8_TOP).to(torch.int8), scales

    def unpack(self, parts: tuple[Tensor, ...], dtype: torch.dtype) -> tuple[Tensor, Tensor | None]:
        codes, scales = parts  # every code is exact in bfloat16
        return codes.to(dtype), scales


@dataclass(frozen=True, slots=True)
class Int4:
    """Packs weights as whole numbers from 0 to 15 times a scale, plus an offset, both bfloat16, for S input features of
    a row.

    A group's range takes in zero, so that its offset is at most 15 scales. A byte holds feature i of the group's first
    half in its low four bits and feature i of the second half in its high four: reading back interleaves nothing.
    A weight takes 4 + 32 / S bits.
    """

    group_size: int = 64
    """One of `GROUP_SIZES`."""
    kernel: ClassVar[str] = "int4"
    parts: ClassVar[tuple[str, ...]] = ("codes", "scales", "offsets")

    def empty(self, rows: int, columns: int) -> tuple[Tensor, ...]:
        if columns % self.group_size:
            raise ValueError(f"{columns} input features are no multiple of the group size {self.group_size}")
        scales, offsets = torch.empty(2, rows, columns // self.group_size, dtype=torch.bfloat16)
        return torch.empty(rows, columns // 2, dtype=torch.uint8), scales, offsets

    def quantize(self, weight: Tensor) -> tuple[Tensor, ...]:
        groups = weight.float().unflatten(-1, (-1, self.group_size))
        low, high = groups.aminmax(dim=-1)
        low, high = low.clamp(max=0.0), high.clamp(min=0.0)
        # Scales and offsets are rounded first: codes are the nearest to what will be read back.
        scales, offsets = ((high - low) / INT4_TOP).to(torch.bfloat16), low.to(torch.bfloat16)
        codes = _nearest(groups - offsets.float()[..., None], scales.float()[..., None], 0, INT4_TOP).to(torch.uint8)
        first, second = codes.chunk(2, dim=-1)
        return (second << 4 | first).flatten(-2), scales, offsets

    def unpack(self, parts: tuple[Tensor, ...], dtype: torch.dtype) -> tuple[Tensor, Tensor | None]:
        codes, scales, offsets = parts
        rows, groups = scales.shape
        pairs = codes.view(rows, groups, -1)
        weight = torch.empty(rows, groups, 2, self.group_size // 2, dtype=dtype, device=codes.device)
        weight[:, :, 0] = pairs & 15
        weight[:, :, 1] = pairs >> 4
        weight = weight.flatten(2).mul_(scales.to(dtype)[..., None]).add_(offsets.to(dtype)[..., None])
        return weight.flatten(1), None


def _nearest(weight: Tensor, scales: Tensor, low: int, high: int) -> Tensor:
    """Returns the whole numbers from `low` to `high` nearest to weight / scales; 0 where the scale is 0."""
    return (weight / scales.clamp(min=torch.finfo(torch.float32).tiny)).round().clamp(low, high)
