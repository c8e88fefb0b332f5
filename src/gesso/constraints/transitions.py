"""Defines the transitions of an automaton over classes of tokens as a list: few states take a token at all.

E transitions   K classes   V vocabulary   R rows
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int32]

REFUSED = -1
"""In place of a state or a class: there is none."""


def within(begin_N: NDArray[np.integer], length_N: NDArray[np.integer]) -> NDArray[np.int64]:
    """Returns the places of several runs, one run after the other."""
    end_N = length_N.cumsum()
    places: NDArray[np.int64] = np.repeat(begin_N - end_N + length_N, length_N) + np.arange(length_N.sum())
    return places


@dataclass(frozen=True, slots=True)
class Transitions:
    """Holds what follows where, in order of the classes; what is not listed is refused."""

    source_E: NDArray[np.integer]
    kind_E: NDArray[np.integer]
    target_E: NDArray[np.integer]
    kinds: int
    """K."""

    @classmethod
    def of_table(cls, next_RK: NDArray[np.integer]) -> "Transitions":
        """Lists a table's."""
        kind_E, source_E = np.nonzero(next_RK.T >= 0)
        return cls(source_E, kind_E, next_RK[source_E, kind_E], next_RK.shape[1])

    def table(self, rows: int) -> IntArray:
        """Returns [R, K] what follows, or `REFUSED`."""
        next_RK = np.full((rows, self.kinds), REFUSED, dtype=np.int32)
        next_RK[self.source_E, self.kind_E] = self.target_E
        return next_RK

    def with_ends(
        self, class_V: IntArray, accepting_R: NDArray[np.bool_], end_tokens: tuple[int, ...], fill: int, done: int
    ) -> tuple["Transitions", IntArray]:
        """Adds the state `done`, whose row stands behind the others, and classes for what ends and fills.

        Returns the transitions, without those of classes that no token has then, and the class of each token.
        """
        outside = sorted({fill, *end_tokens})
        class_V = class_V.copy()
        class_V[outside] = self.kinds + np.arange(len(outside))
        used_K = np.bincount(class_V[class_V >= 0], minlength=self.kinds + len(outside)) > 0
        kept = used_K[self.kind_E]
        sources, kinds = [self.source_E[kept]], [self.kind_E[kept]]
        for kind, token in enumerate(outside, start=self.kinds):
            from_R = [np.flatnonzero(accepting_R)] if token in end_tokens else []
            from_R += [np.array([len(accepting_R)])] if token == fill else []
            sources += from_R
            kinds += [np.full(len(found), kind) for found in from_R]
        source_E = np.concatenate(sources)
        target_E = np.full(len(source_E), done)
        target_E[: kept.sum()] = self.target_E[kept]
        return Transitions(source_E, np.concatenate(kinds), target_E, self.kinds + len(outside)), class_V

    def renumbered(self, number_R: NDArray[np.integer]) -> "Transitions":
        """Returns the transitions between states that have a number, by their numbers."""
        source_E, target_E = number_R[self.source_E], number_R[self.target_E]
        kept = (source_E >= 0) & (target_E >= 0)
        return Transitions(source_E[kept], self.kind_E[kept], target_E[kept], self.kinds)

    def merged(self, rows: int, targets: int) -> tuple[IntArray, IntArray]:
        """Returns the table of the classes that differ, in the order in which they first come; and of each class its
        place among them, or `REFUSED` where it is refused everywhere. What follows is below `targets`."""
        length_K = np.bincount(self.kind_E, minlength=self.kinds)
        end_K = length_K.cumsum()
        for seed in range(10):
            sums = np.append(np.uint64(0), Hashes(rows, targets, seed).of(self.source_E, self.target_E).cumsum())
            place_K = places_of((sums[end_K] - sums[end_K - length_K])[length_K > 0].tolist(), {})
            place = np.full(self.kinds, REFUSED, dtype=np.int32)
            place[length_K > 0] = place_K
            _, firsts = np.unique(place_K, return_index=True)
            firsts = np.flatnonzero(length_K > 0)[firsts]
            chosen = within((end_K - length_K)[firsts], length_K[firsts])
            next_RK = np.full((rows, len(firsts)), REFUSED, dtype=np.int32)
            next_RK[self.source_E[chosen], place[self.kind_E[chosen]]] = self.target_E[chosen]
            # That none fell together by chance is checked; if so, again.
            alike = next_RK[self.source_E, place[self.kind_E]] == self.target_E
            if alike.all() and (length_K == length_K[firsts[place]])[length_K > 0].all():
                return next_RK, place
        raise AssertionError("classes fell together")


class Hashes:
    """Tells sets of pairs apart by the sum of a number for each pair."""

    def __init__(self, sources: int, targets: int, seed: int) -> None:
        random = np.random.default_rng(seed)
        self._source = random.integers(2**64, size=sources, dtype=np.uint64) | np.uint64(1)
        self._target = random.integers(2**64, size=targets, dtype=np.uint64)

    def of(self, source_E: NDArray[np.integer], target_E: NDArray[np.integer]) -> NDArray[np.uint64]:
        """Returns the number of each pair."""
        hashes: NDArray[np.uint64] = self._source.take(source_E) * self._target.take(target_E)
        return hashes


def places_of(hashes: Iterable[int], number: dict[int, int]) -> NDArray[np.int64]:
    """Returns the number of each hash; new ones get the next numbers, in the order in which they come."""
    return np.array([number.setdefault(found, len(number)) for found in hashes], dtype=np.int64)
