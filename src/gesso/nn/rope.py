"""Rotary positions (arXiv 2104.09864), made once per device and looked up by position."""

from typing import Any

import torch
from torch import Tensor

from gesso.config import RopeConfig


def inverse_frequencies(rope: RopeConfig, head_dim: int) -> Tensor:
    """Angular frequency of every pair of a head, [head_dim / 2], radians per position, fp32.

    `proportional` keeps the exponents over the whole head and sets the pairs past
    `partial_rotary_factor` to zero: they are not turned.
    """
    rotated = int(rope.partial_rotary_factor * head_dim // 2) if rope.rope_type == "proportional" else head_dim // 2
    exponents = torch.arange(0, 2 * rotated, 2, dtype=torch.float32) / head_dim
    frequencies = torch.zeros(head_dim // 2)
    frequencies[:rotated] = 1.0 / rope.rope_theta**exponents / rope.factor
    return frequencies


class RopeTable:
    """cos and sin of every position up to the longest asked for so far; grows by doubling."""

    def __init__(self, rope: RopeConfig, head_dim: int) -> None:
        self._rope, self._head_dim = rope, head_dim
        self._table: Tensor | None = None

    def lookup(self, positions_N: Tensor, longest: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """cos and sin, each [N, 1, K], for positions below `longest`, in `dtype`."""
        table = self._table
        if table is None or table.shape[1] < longest or table.device != positions_N.device or table.dtype != dtype:
            length = max(256, 1 << (longest - 1).bit_length())
            angles = torch.arange(length, dtype=torch.float32)[:, None] * inverse_frequencies(
                self._rope, self._head_dim
            )
            angles = torch.cat((angles, angles), dim=-1)
            table = torch.stack((angles.cos(), angles.sin())).to(positions_N.device, dtype)
            self._table = table
        cos, sin = table[:, positions_N].unsqueeze(2)
        return cos, sin


def apply_rope(x_NHK: Tensor, cos_N1K: Tensor, sin_N1K: Tensor) -> Tensor:
    """Turn each pair (i, i + K/2) of every head by its position's angle."""
    if torch.is_grad_enabled():
        out: Tensor = _Turn.apply(x_NHK, cos_N1K, sin_N1K)  # type: ignore[no-untyped-call]
        return out
    half = x_NHK.shape[-1] // 2
    swapped = torch.cat((-x_NHK[..., half:], x_NHK[..., :half]), dim=-1)
    return x_NHK * cos_N1K + swapped * sin_N1K


class _Turn(torch.autograd.Function):
    """The same with its gradient, which is the turn back: two passes over memory each way, and nothing kept of x."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        ctx.save_for_backward(cos, sin)
        return _turned(x, cos, sin, 1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        cos, sin = ctx.saved_tensors
        return _turned(grads[0], cos, sin, -1), None, None


def _turned(x: Tensor, cos: Tensor, sin: Tensor, direction: int) -> Tensor:
    half = x.shape[-1] // 2
    first, second = x[..., :half], x[..., half:]
    out = x * cos
    out[..., :half].addcmul_(second, sin[..., :half], value=-direction)
    out[..., half:].addcmul_(first, sin[..., half:], value=direction)
    return out
