"""Turns heads by positions on a grid: the first half of a head by a patch's column, the second by its row.

P patches   K head size   Q = K / 2
"""

import torch
from torch import Tensor

from gesso.nn.rope import apply_rope


class AxialRope:
    """Computes cos and sin of the patches of a grid. Half a head holds K / 4 pairs (i, i + K / 4), of frequency theta
    ** (-2i / Q) radians a patch."""

    def __init__(self, theta: float, head_dim: int) -> None:
        half = head_dim // 2
        self._frequencies = 1.0 / theta ** (torch.arange(0, half, 2, dtype=torch.float32, device="cpu") / half)

    def grid(self, rows: int, columns: int, device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Returns cos and sin, each [P, 1, 2, Q], of the patches of a grid, row by row; computed in fp32."""
        column = torch.arange(columns, dtype=torch.float32, device="cpu").repeat(rows)
        row = torch.arange(rows, dtype=torch.float32, device="cpu").repeat_interleave(columns)
        angles = torch.stack((column, row), dim=-1)[..., None] * self._frequencies
        angles = torch.cat((angles, angles), dim=-1)[:, None]
        return angles.cos().to(device, dtype), angles.sin().to(device, dtype)


def apply_axial_rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turns every half head [..., P, H, K] by its patch's angles."""
    return apply_rope(x.unflatten(-1, (2, -1)), cos, sin).flatten(-2)
