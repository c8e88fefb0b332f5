"""Computes rotary positions (arXiv 2104.09864), made once per device and looked up by position."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from gesso.config import RopeConfig
from gesso.errors import OptionError

_ROWS = 2**14
"""Positions whose angles are held at a time."""


def inverse_frequencies(rope: RopeConfig, head_dim: int) -> Tensor:
    """Returns the angular frequency of every pair of a head, [head_dim / 2], radians per position, fp32.

    `proportional` keeps the exponents over the whole head and sets the pairs past
    `partial_rotary_factor` to zero: they are not turned.
    """
    turned = _turned_pairs(rope, head_dim)
    exponents = torch.arange(0, 2 * turned, 2, dtype=torch.float32, device="cpu") / head_dim
    frequencies = torch.zeros(head_dim // 2, dtype=torch.float32, device="cpu")
    frequencies[:turned] = 1.0 / rope.rope_theta**exponents / rope.factor
    return frequencies


def _turned_pairs(rope: RopeConfig, head_dim: int) -> int:
    """Returns how many pairs of a head have a frequency."""
    return int(rope.partial_rotary_factor * head_dim // 2) if rope.rope_type == "proportional" else head_dim // 2


class RopeTable:
    """Holds cos and sin of positions; only the pairs that are turned are stored, one number for both of a pair.

    Life cycle: a table grows by doubling up to the longest position asked for. `fix` makes it for so many positions at
    once and for ever: what keeps its address, a CUDA graph say, may rely on it.
    """

    def __init__(self, rope: RopeConfig, head_dim: int) -> None:
        self._rope, self._head_dim = rope, head_dim
        self._turned = _turned_pairs(rope, head_dim)
        self._table: Tensor | None = None
        self._fixed: int | None = None

    @property
    def nbytes(self) -> int:
        """Returns the bytes of the table as it is."""
        return 0 if self._table is None else self._table.nbytes

    def fix(self, positions: int, device: torch.device, dtype: torch.dtype) -> None:
        """Makes the table for positions below `positions`; it does not grow from here on."""
        self._fixed = positions
        if not self._serves(positions, device, dtype):
            self._table = self._make(positions, device, dtype)

    def lookup(self, positions_N: Tensor, longest: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Returns cos and sin, each [N, 1, K], for positions below `longest`, in `dtype`.

        Raises:
            OptionError: `longest` is past the positions that the table is fixed to.
        """
        if self._fixed is not None and longest > self._fixed:
            raise OptionError(f"{longest} tokens are past the {self._fixed} that the tables of positions are made for")
        if not self._serves(longest, positions_N.device, dtype):
            length = max(256, 1 << (longest - 1).bit_length())
            self._table = self._make(self._fixed or length, positions_N.device, dtype)
        assert self._table is not None
        cos_NR, sin_NR = self._table[:, positions_N]
        if still := self._head_dim // 2 - self._turned:
            cos_NR, sin_NR = F.pad(cos_NR, (0, still), value=1.0), F.pad(sin_NR, (0, still))
        return torch.cat((cos_NR, cos_NR), dim=-1).unsqueeze(1), torch.cat((sin_NR, sin_NR), dim=-1).unsqueeze(1)

    def _serves(self, longest: int, device: torch.device, dtype: torch.dtype) -> bool:
        table = self._table
        return table is not None and table.shape[1] >= longest and (table.device, table.dtype) == (device, dtype)

    def _make(self, length: int, device: torch.device, dtype: torch.dtype) -> Tensor:
        """Makes the table [2, length, R], of angles in fp32 on the host, some rows at a time."""
        host = "meta" if device.type == "meta" else "cpu"  # shapes without numbers take no memory
        frequencies_R = inverse_frequencies(self._rope, self._head_dim)[: self._turned].to(host)
        table = torch.empty(2, length, self._turned, device=device, dtype=dtype)
        for start in range(0, length, _ROWS):
            positions = torch.arange(start, min(start + _ROWS, length), dtype=torch.float32, device=host)
            angles = positions[:, None] * frequencies_R
            table[:, start : start + _ROWS] = torch.stack((angles.cos(), angles.sin())).to(device, dtype)
        return table


def apply_rope(x_NHK: Tensor, cos_N1K: Tensor, sin_N1K: Tensor) -> Tensor:
    """Turns each pair (i, i + K/2) of every head by its position's angle."""
    if torch.is_grad_enabled():
        out: Tensor = _Turn.apply(x_NHK, cos_N1K, sin_N1K)  # type: ignore[no-untyped-call]
        return out
    half = x_NHK.shape[-1] // 2
    swapped = torch.cat((-x_NHK[..., half:], x_NHK[..., :half]), dim=-1)
    return x_NHK * cos_N1K + swapped * sin_N1K


class _Turn(torch.autograd.Function):
    """Computes the turn with its gradient, which is the turn back: two passes over memory each way, and nothing kept of
    x."""

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
