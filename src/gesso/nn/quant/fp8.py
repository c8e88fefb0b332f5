"""Reads FP8 weights as NVIDIA's modelopt stores them, dequantized inside the matmul: no hardware FP8 is used.

A weight is e4m3 (magnitudes up to 448) times one fp32 number, for the matrix or for each row (output feature).
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

FP8_TOP = 448.0
"""The largest magnitude of e4m3."""


@dataclass(frozen=True, slots=True)
class FP8:
    """Packs weights as the module's docstring says. A matrix's one scale is held once for every row."""

    kernel: ClassVar[str] = "fp8"
    parts: ClassVar[tuple[str, ...]] = ("codes", "scales")

    def empty(self, rows: int, columns: int) -> tuple[Tensor, ...]:
        return torch.empty(rows, columns, dtype=torch.float8_e4m3fn), torch.empty(rows, dtype=torch.float32)

    def quantize(self, weight: Tensor) -> tuple[Tensor, ...]:
        """Returns codes and scales, as large as let the row's largest become 448."""
        weight = weight.float()
        scales = weight.abs().amax(dim=-1) / FP8_TOP
        unit = weight / scales.clamp(min=torch.finfo(torch.float32).tiny)[:, None]
        return unit.to(torch.float8_e4m3fn), scales

    def unpack(self, parts: tuple[Tensor, ...], dtype: torch.dtype) -> tuple[Tensor, Tensor | None]:
        codes, scales = parts  # every code is exact in bfloat16 and in float16
        return codes.to(dtype), scales
