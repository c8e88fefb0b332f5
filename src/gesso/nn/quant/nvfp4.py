"""Reads NVFP4 weights as NVIDIA's modelopt stores them, dequantized inside the matmul: no hardware FP4 is used.

A weight is e2m1 (0, 0.5, 1, 1.5, 2, 3, 4, 6 and a sign bit), two a byte, the earlier feature in the low four
bits, times a scale in FP8 (e4m3) for 16 input features of a row, times one fp32 number for the matrix.
"""

import functools
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from gesso.nn.quant.fp8 import FP8_TOP

GROUP = 16
MAGNITUDES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


@functools.cache
def _pairs(device: torch.device, dtype: torch.dtype) -> Tensor:
    """Both values of every byte, [256, 2]."""
    values = torch.tensor([*MAGNITUDES, *(-value for value in MAGNITUDES)], dtype=torch.float32, device="cpu")
    codes = torch.arange(256, device="cpu")
    return torch.stack((values[codes & 15], values[codes >> 4]), dim=-1).to(device, dtype)


@dataclass(frozen=True, slots=True)
class NVFP4:
    """Packs weights as the module's docstring says. The matrix's one scale is held once for every row: fused matrices
    have several."""

    kernel: ClassVar[str] = "nvfp4"
    parts: ClassVar[tuple[str, ...]] = ("codes", "scales", "factors")

    def empty(self, rows: int, columns: int) -> tuple[Tensor, ...]:
        if columns % GROUP:
            raise ValueError(f"{columns} input features are no multiple of {GROUP}")
        return (
            torch.empty(rows, columns // 2, dtype=torch.uint8),
            torch.empty(rows, columns // GROUP, dtype=torch.float8_e4m3fn),
            torch.empty(rows, dtype=torch.float32),
        )

    def quantize(self, weight: Tensor) -> tuple[Tensor, ...]:
        """Returns codes and scales, as large as let the group's largest become 6."""
        groups = weight.float().unflatten(-1, (-1, GROUP))
        largest = groups.abs().amax(dim=-1)
        factor = (largest.max() / (6 * FP8_TOP)).clamp(min=torch.finfo(torch.float32).tiny)
        scales = (largest / 6 / factor).to(torch.float8_e4m3fn)
        unit = groups / (scales.float() * factor).clamp(min=torch.finfo(torch.float32).tiny)[..., None]
        values = torch.tensor(MAGNITUDES, dtype=torch.float32, device=weight.device)
        edges = (values[1:] + values[:-1]) / 2
        codes = (torch.bucketize(unit.abs(), edges) | (unit < 0).long() << 3).to(torch.uint8).flatten(-2)
        return codes[..., 0::2] | codes[..., 1::2] << 4, scales, factor.expand(len(weight)).clone()

    def unpack(self, parts: tuple[Tensor, ...], dtype: torch.dtype) -> tuple[Tensor, Tensor | None]:
        codes, scales, factors = parts  # a value times a scale has 6 bits: exact in bfloat16
        values = _pairs(codes.device, dtype)[codes.int()].flatten(-2).unflatten(-1, (-1, GROUP))
        return (values * scales.to(dtype)[..., None]).flatten(-2), factors
