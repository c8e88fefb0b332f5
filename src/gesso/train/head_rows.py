"""Lays heads of rows that lie flat out for attention, head by head and padded, on a CPU in one pass over memory.

The rows of each group (`encoder_rows`) become a tensor of their own; of their gradients, and of what attention made,
one flat tensor is put together.

    N tokens of all rows, and what fills the batch up   B rows of a group   T tokens of a padded row
    H heads of K features
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gesso.nn.compiled_training import copies
from gesso.train.attention import attend_heads
from gesso.train.encoder_rows import Group


@dataclass(frozen=True, slots=True)
class GroupRows:
    """Says where the rows of a group are among flat tokens."""

    begins_B: Tensor
    lengths_B: Tensor
    longest: int


class HeadRows:
    """Lays out the heads of groups of whole rows."""

    def __init__(self, lengths: Sequence[int], groups: Sequence[Group]) -> None:
        """
        Args:
            lengths: of all rows, in order.
        """
        lengths_B = torch.tensor(lengths, device="cpu")
        begins_B = lengths_B.cumsum(0) - lengths_B
        self._groups = [GroupRows(begins_B[g.rows], lengths_B[g.rows], g.longest) for g in groups]
        self._tokens = sum(lengths)

    def spread(self, x_NHK: Tensor) -> tuple[Tensor, ...]:
        """Lays tokens out, [B, H, T, K] for each group, with zeros behind the ends of rows."""
        found: tuple[Tensor, ...] = _Spread.apply(x_NHK, self)  # type: ignore[no-untyped-call]
        return found

    def collect(self, groups_BHTK: Sequence[Tensor], count: int) -> Tensor:
        """Puts the tokens of all groups together, [N, H, K], with zeros behind them where `count` is more."""
        out: Tensor = _Collect.apply(self, count, *groups_BHTK)  # type: ignore[no-untyped-call]
        return out

    def attend(
        self, q_NHK: Tensor, k_NGK: Tensor, v_NGK: Tensor, biases: Sequence[Tensor | None]
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """Attends within rows, [N, H, K]; returns the padded keys and values [B, T, G, K] of each group, too.

        Args:
            biases: of each group, as `attend_masked` takes them.
        """
        rows = zip(*(self.spread(x) for x in (q_NHK, k_NGK, v_NGK)), biases, strict=True)
        found, keys, values = [], [], []
        for q, k, v, bias in rows:
            found.append(attend_heads(q, k, v, bias))
            keys.append(k.transpose(1, 2))
            values.append(v.transpose(1, 2))
        return self.collect(found, len(q_NHK)), keys, values

    def spread_numbers(self, x_NHK: Tensor) -> tuple[Tensor, ...]:
        """Computes `spread` without a graph."""
        from gesso.kernels.host import trained

        _, heads, width = x_NHK.shape
        found = []
        for group in self._groups:
            shape = len(group.lengths_B), heads, group.longest, width
            found.append(trained.spread(x_NHK, x_NHK.new_empty(shape), group.begins_B, group.lengths_B))
        return tuple(found)

    def collect_numbers(self, groups_BHTK: Sequence[Tensor], count: int) -> Tensor:
        """Computes `collect` without a graph."""
        from gesso.kernels.host import trained

        _, heads, _, width = groups_BHTK[0].shape
        out = groups_BHTK[0].new_empty(count, heads, width)
        out[self._tokens :] = 0
        for group, padded in zip(self._groups, groups_BHTK, strict=True):
            trained.collect(out, padded.contiguous(), group.begins_B, group.lengths_B)
        return out


def lays_out(*tensors_NHK: Tensor) -> bool:
    """Says whether `HeadRows` takes these tensors."""
    return all(copies(x) for x in tensors_NHK)


class _Spread(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: HeadRows) -> tuple[Tensor, ...]:
        ctx.rows, ctx.count = rows, len(x)
        return rows.spread_numbers(x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return ctx.rows.collect(grads, ctx.count), None


class _Collect(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: HeadRows, count: int, *groups: Tensor) -> Tensor:
        ctx.rows = rows
        return rows.collect_numbers(groups, count)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return None, None, *ctx.rows.spread(grads[0].contiguous())
