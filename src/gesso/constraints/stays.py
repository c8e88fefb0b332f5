"""Says how likely it is that a canvas counts farther than its counters allow, where they are left out.

A *stay* is the part of a way through a canvas that is spent with one counter, from its start to where it is left. For
any x > 0, what weighs exp(x * (counted / limit - 1)) times as much as before weighs no less than before where more than
the limit is counted. So the weight of all ways, tilted like that while they stay, bounds the weight of those that count
too far (Chernoff's bound), summed over the positions at which they may do so; the least of a few x is taken.

    T tilts   S states of a window   Q pairs that stay or begin to   G groups of counters that are left out
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gesso.constraints.counters import Counters

FloatArray = NDArray[np.float64]

TILTS = np.array((32.0, 40.0, 55.0, 80.0, 130.0, 250.0))
"""exp(-32) is below what a bound may come to; exp(-250) is far from underflowing."""


@dataclass(frozen=True, slots=True)
class Stays:
    """Holds the counters that are left out of a window, and the pairs that count with them, in order of their
    targets."""

    source_Q: NDArray[np.int64]
    set_Q: NDArray[np.int64]
    stays_Q: NDArray[np.bool_]
    """Whether the counter goes on; else it starts."""
    tilt_TQ: FloatArray
    targets: NDArray[np.int64]
    begins: NDArray[np.int64]
    """Where the pairs of each target begin."""
    first_TS: FloatArray
    """What the states that a canvas starts from are tilted by, for what was counted before; 0 for others."""
    member_SG: FloatArray
    group_G: tuple[int, ...]

    @classmethod
    def build(
        cls,
        counters: Counters,
        family_S: NDArray[np.int64],
        pairs: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]],
        moves_P: NDArray[np.bool_],
        count_P: NDArray[np.int64],
        counted_S: NDArray[np.int64],
    ) -> "Stays":
        """Finds what counts with the counters that are left out.

        Args:
            family_S: of each state, the family of a counter that is left out, or -1.
            pairs: source, target and set of each.
            moves_P: which go on counting.
            count_P: how far they count, or where they start to.
            counted_S: what was counted before the canvas.
        """
        source_P, target_P, set_P = pairs
        inside_S = family_S >= 0
        limit_S = np.where(inside_S, counters.limit_F[family_S.clip(min=0)], 1)
        places = np.flatnonzero(inside_S[target_P])
        places = places[np.argsort(target_P[places], kind="stable")]
        target_Q = target_P[places]
        stays_Q = moves_P[places] & inside_S[source_P[places]]
        # What has counted before is in the weight already; what starts to is tilted down as a whole.
        share_Q = count_P[places] / limit_S[target_Q] - ~stays_Q
        targets, begins = np.unique(target_Q, return_index=True)
        with np.errstate(over="ignore"):
            # Where it overflows it bounds nothing.
            tilt_TQ = np.exp(TILTS[:, None] * share_Q)
            first_TS = np.where(inside_S, np.exp(TILTS[:, None] * (counted_S / limit_S - 1)), 0.0)
        group_S = np.where(inside_S, counters.group_F[family_S.clip(min=0)], -1)
        groups = np.unique(group_S[inside_S])
        return cls(
            source_P[places],
            set_P[places],
            stays_Q,
            tilt_TQ,
            targets,
            begins,
            first_TS,
            (group_S[:, None] == groups).astype(np.float64),
            tuple(groups.tolist()),
        )

    @np.errstate(over="ignore", invalid="ignore")
    def step(self, before_S: FloatArray, tilted_TS: FloatArray, weight_L: FloatArray) -> FloatArray:
        """Returns [T, S] tilted weights of the ways to each state, one position on.

        Args:
            before_S: their weights without a tilt, one position before; `tilted_TS` those with it.
            weight_L: of each set of classes at this position.
        """
        way_TQ = np.where(self.stays_Q, tilted_TS.take(self.source_Q, axis=1), before_S.take(self.source_Q))
        way_TQ *= self.tilt_TQ
        way_TQ *= weight_L.take(self.set_Q)
        out_TS = np.zeros_like(tilted_TS)
        if len(self.begins):
            out_TS[:, self.targets] = np.add.reduceat(way_TQ, self.begins, axis=1)
        return out_TS

    def overrun(self, share_TS: FloatArray) -> dict[int, float]:
        """Says how likely each group of counters is at most to be counted too far.

        Args:
            share_TS: summed over the positions, the tilted weight of all ways through each state, as a share of all.
        """
        # What overflows bounds nothing.
        share_TS = np.where(np.isfinite(share_TS), share_TS, np.finfo(np.float64).max / share_TS.shape[1])
        bounds = (share_TS @ self.member_SG).min(axis=0)
        return dict(zip(self.group_G, bounds.tolist(), strict=True))
