"""Recursions over the positions of a canvas, on the host: the best ways through an automaton, and the weight of all.

C positions   S states   P pairs of a state and one that follows it   L distinct sets of classes between such pairs
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

FAINTEST = 1e-200
"""Least weight of all ways through a canvas, relative to the best before and behind each position, that plain
products may show: what has underflowed is then no more than 1e-100 of it."""


class Scan:
    """Recursions over the positions of a canvas, forwards and backwards, over all pairs of states at once."""

    def __init__(
        self, source: NDArray[np.int64], target: NDArray[np.int64], set_P: NDArray[np.int64], states: int
    ) -> None:
        self.states = states
        ahead = np.argsort(target, kind="stable")
        back = np.argsort(source, kind="stable")
        self._ahead = _Recursion.make(source[ahead], target[ahead], set_P[ahead])
        self._back = _Recursion.make(target[back], source[back], set_P[back])
        self._arrival_P = target[ahead]
        # Both directions as one recursion over twice the states: the time is in the number of array operations.
        self._both = _Recursion.make(
            np.concatenate([source[ahead], states + target[back]]),
            np.concatenate([target[ahead], states + source[back]]),
            np.concatenate([set_P[ahead], int(set_P.max()) + 1 + set_P[back]]),
        )

    def best(self, weight_CL: FloatArray, last_S: FloatArray) -> FloatArray:
        """[C + 1, S] log weight of the best way from each state to the end."""
        ahead = np.full((len(weight_CL) + 1, self.states), -math.inf)
        ahead[-1] = last_S
        for place in range(len(weight_CL) - 1, -1, -1):
            self._back.maximum(ahead[place + 1], weight_CL[place], ahead[place])
        return ahead

    def shares(self, weight_CL: FloatArray, first_S: FloatArray, last_S: FloatArray) -> tuple[FloatArray, float] | None:
        """Posterior probability of each set of classes at each position, [C, L], and the log of the summed weight.

        None where a position's ways weigh less than `FAINTEST`, each side of it scaled to its best.

        Args:
            weight_CL: of each set, not as logarithms; the largest class of a position weighs 1.
        """
        length, sets = weight_CL.shape
        behind = np.zeros((length + 1, self.states))
        behind[-1] = np.exp(last_S)
        log_total = 0.0
        for place in range(length - 1, -1, -1):
            top = self._back.scaled_sum(self._back.ways(behind[place + 1], weight_CL[place]), behind[place])
            if top == 0:
                return None
            log_total += math.log(top)
        before, after = np.exp(first_S), np.zeros(self.states)
        share_CL = np.empty_like(weight_CL)
        log_total += math.log(max(float(before @ behind[0]), np.finfo(np.float64).tiny))
        for place in range(length):
            way_P = self._ahead.ways(before, weight_CL[place])
            after.fill(0.0)
            if self._ahead.scaled_sum(way_P, after) == 0:
                return None
            way_P *= behind[place + 1].take(self._arrival_P)
            share_CL[place] = np.bincount(self._ahead.set, way_P, sets)
            before, after = after, before
        total_C1 = share_CL.sum(axis=1, keepdims=True)
        if total_C1.min() < FAINTEST:
            return None
        return share_CL / total_C1, log_total

    def sums(self, weight_CL: FloatArray, first_S: FloatArray, last_S: FloatArray) -> tuple[FloatArray, FloatArray]:
        """[C + 1, S] each: log weight of all ways from the start to each state, and from each state to the end."""
        both = np.full((len(weight_CL) + 1, 2 * self.states), -math.inf)
        both[0] = np.concatenate([first_S, last_S])
        weights = np.concatenate([weight_CL, weight_CL[::-1]], axis=1)
        for place in range(len(weight_CL)):
            self._both.logsumexp(both[place], weights[place], both[place + 1])
        return both[:, : self.states], np.ascontiguousarray(both[::-1, self.states :])


@dataclass(frozen=True, slots=True)
class _Recursion:
    """One step: from each pair's source, with the weight of the pair's set, to its target; pairs sorted by target."""

    source: NDArray[np.int64]
    set: NDArray[np.int64]
    begins: NDArray[np.int64]
    """Of the pairs of each target."""
    segment: NDArray[np.int64]
    targets: NDArray[np.int64]

    @classmethod
    def make(cls, source: NDArray[np.int64], target: NDArray[np.int64], set_P: NDArray[np.int64]) -> "_Recursion":
        targets, begins, segment = np.unique(target, return_index=True, return_inverse=True)
        return cls(source, set_P, begins, segment, targets)

    def maximum(self, state: FloatArray, weight: FloatArray, out: FloatArray) -> None:
        out[self.targets] = np.maximum.reduceat(state.take(self.source) + weight.take(self.set), self.begins)

    def ways(self, state: FloatArray, weight: FloatArray) -> FloatArray:
        """Product of each pair's source and weight, [P]."""
        product: FloatArray = state.take(self.source)
        product *= weight.take(self.set)
        return product

    def scaled_sum(self, ways: FloatArray, out: FloatArray) -> float:
        """Sums at each target, scaled so that the largest is 1; returns what it was. 0 leaves `out` as it is."""
        sums = np.add.reduceat(ways, self.begins)
        top = float(sums.max())
        if top > 0:
            sums /= top
            out[self.targets] = sums
        return top

    def logsumexp(self, state: FloatArray, weight: FloatArray, out: FloatArray) -> None:
        terms = state[self.source] + weight[self.set]
        top = np.maximum(np.maximum.reduceat(terms, self.begins), np.finfo(np.float64).min)
        terms -= top[self.segment]
        total = np.add.reduceat(np.exp(terms, out=terms), self.begins)
        with np.errstate(divide="ignore"):
            out[self.targets] = np.log(total) + top
