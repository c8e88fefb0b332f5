"""Defines the transitions of an automaton over classes of tokens as a list: few states take a token at all.

E transitions   K classes   V vocabulary   R rows
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gesso.constraints import budget
from gesso.kernels import host

if TYPE_CHECKING:
    from gesso.kernels.host.library import Compositions

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
    """Holds what follows where, class after class, by the place of its run of pairs; what is not listed is refused."""

    begin_K: NDArray[np.int64]
    length_K: NDArray[np.int64]
    source_E: NDArray[np.int32]
    target_E: NDArray[np.int32]

    @property
    def kinds(self) -> int:
        """Returns the number of classes that tokens with arcs fall into, K."""
        return len(self.begin_K)

    def with_ends(
        self, class_V: IntArray, accepting_R: NDArray[np.bool_], end_tokens: tuple[int, ...], fill: int, done: int
    ) -> tuple["Transitions", IntArray]:
        """Adds the state `done`, whose row stands behind the others, and classes for what ends and fills.

        Returns the transitions, without those of classes that no token has then, and the class of each token.
        """
        outside = sorted({fill, *end_tokens})
        class_V = class_V.copy()
        class_V[outside] = self.kinds + np.arange(len(outside))
        # One place more, for what is in no class.
        used_K = np.zeros(self.kinds + len(outside) + 1, dtype=np.bool_)
        used_K[class_V] = True
        sources = []
        for token in outside:
            ends = np.flatnonzero(accepting_R) if token in end_tokens else np.empty(0, dtype=np.int64)
            sources.append(np.append(ends, len(accepting_R)) if token == fill else ends)
        length_O = np.array([len(source) for source in sources])
        begin_O = len(self.source_E) + length_O.cumsum() - length_O
        made = Transitions(
            np.concatenate([self.begin_K, begin_O]),
            np.concatenate([self.length_K, length_O]) * used_K[:-1],
            np.concatenate([self.source_E, *sources]).astype(np.int32, copy=False),
            np.concatenate([self.target_E, np.full(length_O.sum(), done, dtype=np.int32)]),
        )
        return made, class_V

    def pairs(self, states: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns each pair of a state and one that follows it once, in order of the first."""
        if (kernels := host_kernels()) is None:
            source_E, _, target_E = self._listed()
            codes = np.unique(source_E.astype(np.int64) * states + target_E)
            return np.divmod(codes, states)
        lists = self.begin_K, self.length_K, self.source_E, self.target_E
        begin_S, target_E = by_source(kernels, *lists, states)
        stamp_S, distinct_S = np.full(states, REFUSED, dtype=np.int32), np.empty(states, dtype=np.int64)
        kernels.distinct(*addresses(begin_S, target_E, stamp_S, distinct_S), states)
        source = np.repeat(np.arange(states), distinct_S)
        return source, target_E[within(begin_S[:states], distinct_S)].astype(np.int64)

    def merged(
        self, source_R: NDArray[np.int32], target_R: NDArray[np.int32], rows: int, targets: int
    ) -> tuple[IntArray, IntArray]:
        """Returns the table of the classes that differ, in the order in which they first come; and of each class its
        place among them, or `REFUSED` where it is refused everywhere.

        Args:
            source_R: the row of each source, or `REFUSED` where it is left out.
            target_R: what is written for each target, below `targets`, or `REFUSED`.
            rows: of the table.

        Raises:
            OptionError: the table is too large, with the pairs that it is made of.
        """
        for seed in range(10):
            hashes = Hashes(rows, targets, seed)
            length_K, sums_K = self._sums(source_R, target_R, hashes)
            filled = np.flatnonzero(length_K)
            place_K = np.full(self.kinds, REFUSED, dtype=np.int32)
            place_K[filled] = places_of(sums_K[filled].tolist(), {})
            _, firsts = np.unique(place_K[filled], return_index=True)
            firsts = filled[firsts]
            budget.current().bytes(4 * rows * len(firsts) + 8 * len(self.source_E))
            next_RK = np.full((rows, len(firsts)), REFUSED, dtype=np.int32)
            # That none fell together by chance is checked; if so, again.
            alike = bool((length_K == length_K[firsts[place_K]])[filled].all()) if len(filled) else True
            if self._fill(next_RK, place_K, firsts, source_R, target_R) and alike:
                return next_RK, place_K
        raise AssertionError("classes fell together")

    def _sums(
        self, source_R: NDArray[np.int32], target_R: NDArray[np.int32], hashes: "Hashes"
    ) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
        """How many pairs are left of each class, and the sum of their hashes."""
        if (kernels := host_kernels()) is None:
            source_E, kind_E, target_E = self._listed()
            source_E, target_E = source_R[source_E], target_R[target_E]
            kept = (source_E >= 0) & (target_E >= 0)
            length_K = np.bincount(kind_E[kept], minlength=self.kinds)
            end_K = length_K.cumsum()
            sums = np.append(np.uint64(0), hashes.of(source_E[kept], target_E[kept]).cumsum())
            return length_K, sums[end_K] - sums[end_K - length_K]
        length_K, sums_K = np.empty(self.kinds, dtype=np.int64), np.empty(self.kinds, dtype=np.uint64)
        lists = self.begin_K, self.length_K, self.source_E, self.target_E
        kernels.sums(*addresses(*lists, source_R, target_R, hashes.source, hashes.target, length_K, sums_K), self.kinds)
        return length_K, sums_K

    def _fill(
        self,
        next_RK: IntArray,
        place_K: IntArray,
        firsts: NDArray[np.int64],
        source_R: NDArray[np.int32],
        target_R: NDArray[np.int32],
    ) -> bool:
        """Writes the classes `firsts` into a table, and says whether the others are what stands there."""
        first_K = np.zeros(self.kinds, dtype=np.uint8)
        first_K[firsts] = 1
        if (kernels := host_kernels()) is None:
            source_E, kind_E, target_E = self._listed()
            source_E, target_E = source_R[source_E], target_R[target_E]
            kept = (source_E >= 0) & (target_E >= 0)
            source_E, kind_E, target_E = source_E[kept], kind_E[kept], target_E[kept]
            chosen = first_K[kind_E] > 0
            next_RK[source_E[chosen], place_K[kind_E[chosen]]] = target_E[chosen]
            return bool((next_RK[source_E, place_K[kind_E]] == target_E).all())
        differs = np.zeros(1, dtype=np.int32)
        lists = self.begin_K, self.length_K, self.source_E, self.target_E
        arrays = *lists, source_R, target_R, place_K, first_K, next_RK, differs
        kernels.fill(*addresses(*arrays), self.kinds, next_RK.shape[1])
        return not differs[0]

    def _listed(self) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int32]]:
        """Source, class and target of each pair."""
        place = within(self.begin_K, self.length_K)
        return self.source_E[place], np.repeat(np.arange(self.kinds), self.length_K), self.target_E[place]


class Hashes:
    """Tells sets of pairs apart by the sum of a number for each pair."""

    def __init__(self, sources: int, targets: int, seed: int) -> None:
        random = np.random.default_rng(seed)
        self.source = random.integers(2**64, size=sources, dtype=np.uint64) | np.uint64(1)
        self.target = random.integers(2**64, size=targets, dtype=np.uint64)

    def of(self, source_E: NDArray[np.integer], target_E: NDArray[np.integer]) -> NDArray[np.uint64]:
        """Returns the number of each pair."""
        hashes: NDArray[np.uint64] = self.source.take(source_E) * self.target.take(target_E)
        return hashes


def places_of(hashes: Iterable[int], number: dict[int, int]) -> NDArray[np.int64]:
    """Returns the number of each hash; new ones get the next numbers, in the order in which they come."""
    return np.array([number.setdefault(found, len(number)) for found in hashes], dtype=np.int64)


def by_source(
    kernels: "Compositions",
    begin_K: NDArray[np.int64],
    length_K: NDArray[np.int64],
    source_E: NDArray[np.int32],
    target_E: NDArray[np.int32],
    states: int,
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Returns where the targets of each state begin, with an end behind the last, and the targets in that order."""
    count_S = np.zeros(states, dtype=np.int64)
    kernels.count(*addresses(begin_K, length_K, source_E, count_S), len(begin_K))
    begin_S = np.append(0, count_S.cumsum())
    place_S, found_E = begin_S[:-1].copy(), np.empty(int(begin_S[-1]), dtype=np.int32)
    kernels.sort(*addresses(begin_K, length_K, source_E, target_E, place_S, found_E), len(begin_K))
    return begin_S, found_E


def host_kernels() -> "Compositions | None":
    """Returns the kernels for this processor, compiled once in a process; None where LLVM is not there."""
    if not host.available():
        return None
    from gesso.kernels.host.library import compositions

    return compositions()


def addresses(*arrays: NDArray[np.generic]) -> list[int]:
    """Returns where arrays lie, for a kernel; the caller holds them until it is done."""
    assert all(array.flags.c_contiguous for array in arrays)
    return [array.ctypes.data for array in arrays]
