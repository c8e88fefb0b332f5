"""Runs over the positions of a canvas, on the host: the best ways through an automaton, and the weight of all.

C positions   S states   P pairs of a state and one that follows it   L distinct sets of classes between such pairs
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gesso.constraints.stays import FloatArray, Stays
from gesso.constraints.transitions import addresses
from gesso.kernels import host

if TYPE_CHECKING:
    from gesso.kernels.host.library import Scans

FAINTEST = 1e-200
"""Least weight of all ways through a canvas, relative to the best before and behind each position, that plain
products may show: what has underflowed is then no more than 1e-100 of it."""


RESCALED = 4
"""Positions after which the weights of plain products are scaled anew: each time costs as much as half a position."""
LEAST = 1e-100
"""Least of them that may show by then: what underflowed meanwhile is no more than 1e-200 of it."""


class Scan:
    """Runs over the positions of a canvas, forwards and backwards, over all pairs of states at once.

    Kernels do it where LLVM is there. Else nearly all of the time is that of some hundred short array operations, one
    after the other: what is kept low is their number.
    """

    def __init__(
        self, source: NDArray[np.int64], target: NDArray[np.int64], set_P: NDArray[np.int64], states: int
    ) -> None:
        """The pairs stand in order of their source."""
        self.states = states
        self._target, self._set = (np.ascontiguousarray(places, dtype=np.int64) for places in (target, set_P))
        self._sources, self._begins = np.unique(source, return_index=True)
        self._begins_S = np.searchsorted(source, np.arange(states + 1)).astype(np.int64)
        self._way_out = [slice(begin, end) for begin, end in itertools.pairwise([*self._begins.tolist(), len(source)])]
        self._place_of = {state: place for place, state in enumerate(self._sources.tolist())}
        # Forwards in order of their sets: sums over neighbours are faster than sums into places.
        by_set = np.argsort(set_P, kind="stable")
        forwards = source[by_set], target[by_set], set_P[by_set]
        self._forwards = tuple(np.ascontiguousarray(places, dtype=np.int64) for places in forwards)
        self._begins_of_set = np.unique(set_P[by_set], return_index=True)[1]
        # Both directions as one recursion over twice the states.
        ahead = np.argsort(target, kind="stable")
        self._both = _Recursion.make(
            np.concatenate([source[ahead], states + target]),
            np.concatenate([target[ahead], states + source]),
            np.concatenate([set_P[ahead], int(set_P.max()) + 1 + set_P]),
        )

    def best(self, weight_CL: FloatArray, last_S: FloatArray) -> FloatArray:
        """Returns [C + 1, S] log weight of the best way from each state to the end."""
        ahead = np.full((len(weight_CL) + 1, self.states), -math.inf)
        ahead[-1] = last_S
        weight_CL = np.ascontiguousarray(weight_CL)
        if (kernels := scan_kernels()) is not None:
            kernels.best(*addresses(ahead, weight_CL, self._begins_S, self._target, self._set), *self._sizes(weight_CL))
            return ahead
        for place in range(len(weight_CL) - 1, -1, -1):
            way_P = ahead[place + 1].take(self._target)
            way_P += weight_CL[place].take(self._set)
            ahead[place] = self._at_sources(np.maximum.reduceat(way_P, self._begins), -math.inf)
        return ahead

    def trace(
        self, best_CL: FloatArray, ahead_CS: FloatArray, state: int, lowest: Callable[[int, Sequence[int]], int]
    ) -> list[int]:
        """Returns the best way from a state: the set of classes it takes at each position.

        Args:
            best_CL: of each set; `ahead_CS` is what `best` made of it.
            lowest: which of equally good sets is taken: given the position and the sets, the place among them.
        """
        sets: list[int] = []
        for place in range(len(best_CL)):
            out = self._way_out[self._place_of[state]]
            set_W, target_W = self._set[out], self._target[out]
            choice = 0
            if len(set_W) > 1:
                ways = (best_CL[place].take(set_W) + ahead_CS[place + 1].take(target_W)).tolist()
                best = max(ways)
                choice = ways.index(best)
                if ways.count(best) > 1:
                    tied = [way for way, weight in enumerate(ways) if weight == best]
                    choice = tied[lowest(place, set_W[tied].tolist())]
            sets.append(int(set_W[choice]))
            state = int(target_W[choice])
        return sets

    def shares(
        self, weight_CL: FloatArray, first_S: FloatArray, last_S: FloatArray, stays: Stays | None = None
    ) -> tuple[FloatArray, float, dict[int, float]] | None:
        """Returns posterior probability of each set of classes at each position, [C, L], the log of the summed weight,
        and of each counter that is left out how likely it is at most to be counted too far.

        None where too much underflows: where a position's ways weigh less than `FAINTEST`.

        Args:
            weight_CL: of each set, not as logarithms; the largest class of a position weighs 1.
            stays: the counters that are left out.
        """
        if stays is None and (kernels := scan_kernels()) is not None:
            return self._shares_by_kernels(kernels, weight_CL, first_S, last_S)
        length = len(weight_CL)
        rescaled = RESCALED if stays is None else 1
        behind_CS = np.empty((length + 1, self.states))
        behind_CS[-1] = np.exp(last_S)
        log_total = 0.0
        # Weights of pairs are looked up in both directions: to hold those of all positions takes longer.
        for place in range(length - 1, -1, -1):
            way_P = behind_CS[place + 1].take(self._target)
            way_P *= weight_CL[place].take(self._set)
            behind_CS[place] = self._at_sources(np.add.reduceat(way_P, self._begins), 0.0)
            if place % rescaled == 0:
                top = float(behind_CS[place].max())
                if top < LEAST:
                    return None
                behind_CS[place] /= top
                log_total += math.log(top)
        source_P, target_P, set_P = self._forwards
        before_S = np.exp(first_S)
        share_CL = np.empty_like(weight_CL)
        log_total += math.log(max(float(before_S @ behind_CS[0]), np.finfo(np.float64).tiny))
        if stays is not None:
            tilted_TS = before_S * stays.first_TS
            tilted_share_TS = np.zeros_like(tilted_TS)
        for place in range(length):
            way_P = before_S.take(source_P)
            way_P *= weight_CL[place].take(set_P)
            if stays is not None:
                tilted_TS = stays.step(before_S, tilted_TS, weight_CL[place])
            before_S = np.bincount(target_P, way_P, self.states)
            way_P *= behind_CS[place + 1].take(target_P)
            share_CL[place] = np.add.reduceat(way_P, self._begins_of_set)
            if place % rescaled == 0:
                top = float(before_S.max())
                if top < LEAST:
                    return None
                before_S = before_S / top
                if stays is not None:
                    tilted_TS /= top
                    reached = float(before_S @ behind_CS[place + 1])
                    if reached < FAINTEST:
                        return None
                    with np.errstate(over="ignore", invalid="ignore"):
                        tilted_share_TS += tilted_TS * (behind_CS[place + 1] / reached)
        total_C1 = share_CL.sum(axis=1, keepdims=True)
        if total_C1.min() < FAINTEST:
            return None
        return share_CL / total_C1, log_total, {} if stays is None else stays.overrun(tilted_share_TS)

    def _shares_by_kernels(
        self, kernels: "Scans", weight_CL: FloatArray, first_S: FloatArray, last_S: FloatArray
    ) -> tuple[FloatArray, float, dict[int, float]] | None:
        weight_CL = np.ascontiguousarray(weight_CL)
        sizes = self._sizes(weight_CL)
        behind_CS = np.empty((len(weight_CL) + 1, self.states))
        behind_CS[-1] = np.exp(last_S)
        top_C = np.ones(len(weight_CL))
        pairs = self._begins_S, self._target, self._set
        kernels.behind(*addresses(behind_CS, weight_CL, *pairs, top_C), *sizes, RESCALED)
        if top_C.min() < LEAST:
            return None
        before_S = np.exp(first_S)
        log_total = float(np.log(top_C).sum())
        log_total += math.log(max(float(before_S @ behind_CS[0]), np.finfo(np.float64).tiny))
        share_CL, next_S = np.empty_like(weight_CL), np.empty(self.states)
        begins_L = np.append(self._begins_of_set, len(self._target)).astype(np.int64)
        arrays = before_S, next_S, share_CL, behind_CS, weight_CL, begins_L, *self._forwards[:2], top_C
        kernels.shares(*addresses(*arrays), *sizes, RESCALED)
        total_C1 = share_CL.sum(axis=1, keepdims=True)
        if top_C.min() < LEAST or total_C1.min() < FAINTEST:
            return None
        return share_CL / total_C1, log_total, {}

    def _sizes(self, weight_CL: FloatArray) -> tuple[int, int, int]:
        return len(weight_CL), self.states, weight_CL.shape[1]

    def _at_sources(self, value_X: FloatArray, nothing: float) -> FloatArray:
        """[S] from the values of the states that pairs start from."""
        if len(value_X) == self.states:
            return value_X
        value_S = np.full(self.states, nothing)
        value_S[self._sources] = value_X
        return value_S

    def sums(self, weight_CL: FloatArray, first_S: FloatArray, last_S: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Returns [C + 1, S] each: log weight of all ways from the start to each state, and from each state to the
        end."""
        both = np.full((len(weight_CL) + 1, 2 * self.states), -math.inf)
        both[0] = np.concatenate([first_S, last_S])
        weights = np.concatenate([weight_CL, weight_CL[::-1]], axis=1)
        for place in range(len(weight_CL)):
            self._both.logsumexp(both[place], weights[place], both[place + 1])
        return both[:, : self.states], np.ascontiguousarray(both[::-1, self.states :])


def scan_kernels() -> "Scans | None":
    """Returns the kernels for this processor, compiled once in a process; None where LLVM is not there."""
    if not host.available():
        return None
    from gesso.kernels.host.library import scans

    return scans()


@dataclass(frozen=True, slots=True)
class _Recursion:
    """One step: from each pair's source, with the weight of the pair's set, to its target; pairs sorted by target."""

    source: NDArray[np.int64]
    set: NDArray[np.int64]
    begins: NDArray[np.int64]
    """Where the pairs of each target begin."""
    segment: NDArray[np.int64]
    targets: NDArray[np.int64]

    @classmethod
    def make(cls, source: NDArray[np.int64], target: NDArray[np.int64], set_P: NDArray[np.int64]) -> "_Recursion":
        targets, begins, segment = np.unique(target, return_index=True, return_inverse=True)
        return cls(source, set_P, begins, segment, targets)

    def logsumexp(self, state: FloatArray, weight: FloatArray, out: FloatArray) -> None:
        terms = state[self.source] + weight[self.set]
        top = np.maximum(np.maximum.reduceat(terms, self.begins), np.finfo(np.float64).min)
        terms -= top[self.segment]
        total = np.add.reduceat(np.exp(terms, out=terms), self.begins)
        with np.errstate(divide="ignore"):
            out[self.targets] = np.log(total) + top
