"""Reduces groups of very different sizes by a few dense reductions.

The members of a group stand in rows of equal width, the rest of its last row is padding; rows are reduced at once,
and where a group has several rows their results are reduced again. Nothing is scattered, so a result does not
depend on the order in which a device happens to add.

    N members   M groups   G rows of width W
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_WIDTHS = tuple(2**power for power in range(3, 11))
_ROW_COST = 8
"""Cost of a row of its own, in members."""
_CPU_CELLS = 1 << 19
"""Members that a CPU works on at a time: 2 MiB of fp32, which stays in a core's cache."""
_NOTHING = -80.0
"""Log of a share that adds nothing in fp64. The exponentials of much smaller numbers take many times as long."""


@dataclass(frozen=True, slots=True)
class _Level:
    places: Tensor
    """[G * W] places of the members, padded with those of others."""
    padding_GW: Tensor
    width: int


class Segments:
    """Holds groups 0..M-1; none is empty."""

    def __init__(self, group_N: NDArray[np.integer], groups: int, device: torch.device) -> None:
        """`group_N` says each member's group, -1 that it is in none."""
        self._levels: list[_Level] = []
        members = np.argsort(group_N, kind="stable")[int((group_N < 0).sum()) :]
        owner = group_N[members]
        while True:
            sizes = np.bincount(owner, minlength=groups)
            assert sizes.all()
            widths = _WIDTHS if sizes.max() > 1 else (1,)
            width = min(widths, key=lambda width: int((-(-sizes // width)).sum()) * (width + _ROW_COST))
            rows = -(-sizes // width)
            begins = (rows.cumsum() - rows) * width
            place = begins[owner] + np.arange(len(owner)) - (sizes.cumsum() - sizes)[owner]
            places = np.zeros(int(rows.sum()) * width, dtype=np.int64)
            padding = np.ones(len(places), dtype=np.bool_)
            places[place], padding[place] = members, False
            padding_GW = torch.from_numpy(padding).to(device).view(-1, width)
            self._levels.append(_Level(torch.from_numpy(places).to(device), padding_GW, width))
            if rows.max() <= 1:
                return
            owner = np.repeat(np.arange(groups), rows)
            members = np.arange(len(owner))

    def logsumexp(self, x_RN: Tensor) -> Tensor:
        """Returns [R, M]; groups of nothing but -inf give -inf."""
        for level in self._levels:
            x_RN = _logsumexp(self._rows(level, x_RN))
        return x_RN

    def summary(self, x_RN: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Returns logsumexp and entropy of the softmax in nats, fp64, the maximum, and its lowest place, int64; each
        [R, M]."""
        stride = max(1, _CPU_CELLS // x_RN.shape[1]) if x_RN.device.type == "cpu" else len(x_RN)
        parts = [self._summary(part) for part in x_RN.split(max(1, stride))]
        total, entropy, best, place = (torch.cat(results) for results in zip(*parts, strict=True))
        return total, entropy, best, place

    def _summary(self, x_RN: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        first, *rest = self._levels
        x_RGW = self._rows(first, x_RN)
        best = x_RGW.amax(dim=-1)
        mass_RGW = _relative(x_RGW, best).exp()
        mass = mass_RGW.sum(dim=-1).double()
        weighted = torch.linalg.vecdot(x_RGW, mass_RGW).double()
        total = mass.log() + best
        entropy = mass.log() - weighted / mass
        # Numbers of rows and members as negative floats, all exact: of those the greatest is fast to find.
        row = -torch.arange(best.shape[1], device=best.device, dtype=torch.float32).expand_as(best)
        for level in rest:
            best_RGW = self._rows(level, best)
            total_RGW = self._rows(level, total)
            row_RGW = self._rows(level, row)
            best, total = best_RGW.amax(dim=-1), _logsumexp(total_RGW.clone())
            # Members of a group are in order, in its rows and from row to row.
            row = torch.where(best_RGW == best[..., None], row_RGW, -math.inf).amax(dim=-1)
            # Entropies add up over rows with shares p: sum of p (H - log p).
            log_share = _relative(total_RGW, total)
            entropy = (log_share.exp() * (self._rows(level, entropy, 0.0) - log_share)).sum(dim=-1)
        row_RM = row.neg().long()
        place_RMW = first.places.view(-1, first.width)[row_RM]
        tied = x_RN.gather(1, place_RMW.flatten(1)).view_as(place_RMW) == best[..., None]
        inside = -torch.arange(first.width, device=best.device, dtype=torch.float32)
        inside = torch.where(tied & ~first.padding_GW[row_RM], inside, -math.inf).amax(dim=-1)
        place_RM1 = place_RMW.gather(-1, inside.neg().long()[..., None])
        return total, entropy, best, place_RM1[..., 0]

    def _rows(self, level: _Level, x_RN: Tensor, padding: float = -math.inf) -> Tensor:
        rows = x_RN.index_select(1, level.places).view(len(x_RN), -1, level.width)
        return rows.masked_fill_(level.padding_GW, padding)


def _logsumexp(x_RGW: Tensor) -> Tensor:
    """The log-sum-exp over the last dimension; overwrites its argument. Rows of nothing but -inf give -inf."""
    top = x_RGW.amax(dim=-1)
    return _relative(x_RGW, top).exp_().sum(dim=-1).log_().add_(top)


def _relative(x_RGW: Tensor, top_RG: Tensor) -> Tensor:
    """Made in place: less the top, and at least `_NOTHING`, also where both are -inf."""
    return x_RGW.sub_(top_RG.clamp(min=torch.finfo(top_RG.dtype).min)[..., None]).clamp_(min=_NOTHING)
