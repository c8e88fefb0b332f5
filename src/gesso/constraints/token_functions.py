"""Keeps functions from states to states, each once, and what becomes of them when a byte follows.

A function is a list of pairs, of a state and where it goes, in order of the states; most functions are defined on few.

    S states   D states that functions are defined on   F functions   G kinds of bytes   N functions at once
    E pairs
"""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from gesso.constraints import budget
from gesso.constraints.transitions import Hashes, IntArray, Transitions, places_of, within

_UNKNOWN = -1
_BATCH = 1 << 20
"""Pairs that are worked on at a time."""


class CollisionError(Exception):
    """Says that two functions have the same hash: all is to be done anew, with another seed."""


class Functions:
    """Holds functions, the identity and the one that is defined nowhere from the beginning."""

    IDENTITY: ClassVar[int] = 0
    NOWHERE: ClassVar[int] = 1

    def __init__(self, next_SG: IntArray, from_D: NDArray[np.int64], seed: int = 0) -> None:
        """The functions are defined on the states `from_D` only."""
        self.groups = next_SG.shape[1]
        self.next_flat = np.ascontiguousarray(next_SG).ravel()
        """Of each state and group, one after the other."""
        self.hashes = Hashes(len(from_D), len(next_SG), seed)
        own = np.arange(len(from_D), dtype=np.int32)
        self.source_E, self.target_E = own, from_D.astype(np.int64)
        self.pairs = len(own)
        self.begin_F, self.length_F = np.array([0, len(own)]), np.array([len(own), 0])
        identity = int(self.hashes.of(own, from_D).sum(dtype=np.uint64))
        self.number = {identity: self.IDENTITY, 0: self.NOWHERE}
        self.asked = budget.current()
        self.then_FG = np.full((2, next_SG.shape[1]), _UNKNOWN, dtype=np.int32)

    def follow(self, function_N: NDArray[np.integer], group_N: NDArray[np.integer]) -> NDArray[np.integer]:
        """Returns each function with one more byte.

        Raises:
            CollisionError: two functions cannot be told apart.
        """
        groups = self.groups
        codes = function_N * groups + group_N
        flags = np.zeros(self.then_FG.size, dtype=np.bool_)
        flags[codes] = True
        new = np.flatnonzero(flags & (self.then_FG.ravel() == _UNKNOWN))
        ends = self.length_F[new // groups].cumsum()
        begin = 0
        while begin < len(new):
            self.asked.check()
            before = int(ends[begin - 1]) if begin else 0
            end = max(begin + 1, int(np.searchsorted(ends, before + _BATCH, side="right")))
            self._compose(*np.divmod(new[begin:end], groups))
            begin = end
        followers: NDArray[np.int32] = self.then_FG.ravel()[codes]
        return followers

    def _compose(self, function_N: NDArray[np.int64], group_N: NDArray[np.int64]) -> None:
        length_N = self.length_F[function_N]
        place = within(self.begin_F[function_N], length_N)
        target = self.next_flat.take(self.target_E.take(place) * self.groups + np.repeat(group_N, length_N))
        kept = np.flatnonzero(target >= 0)
        target, source = target.take(kept), self.source_E.take(place.take(kept))
        owner = np.repeat(np.arange(len(function_N)), length_N).take(kept)
        length_N = np.bincount(owner, minlength=len(function_N))
        end_N = length_N.cumsum()
        sums = np.append(np.uint64(0), self.hashes.of(source, target).cumsum())
        before = len(self.number)
        found_N = places_of((sums[end_N] - sums[end_N - length_N]).tolist(), self.number)
        self._keep(found_N, before, source, target, length_N)
        # That none fell together by chance is checked.
        if (self.length_F[found_N] != length_N).any():
            raise CollisionError
        place = within(self.begin_F[found_N], length_N)
        if (self.source_E.take(place) != source).any() or (self.target_E.take(place) != target).any():
            raise CollisionError
        if len(self.number) > len(self.then_FG):
            room = 2 * len(self.number) - len(self.then_FG)
            self.then_FG = np.pad(self.then_FG, ((0, room), (0, 0)), constant_values=_UNKNOWN)
        self.then_FG[function_N, group_N] = found_N

    def _keep(
        self, found_N: NDArray[np.int64], before: int, source: IntArray, target: IntArray, length_N: NDArray[np.int64]
    ) -> None:
        """Keeps the pairs of functions that are new: those of numbers from `before` on."""
        fresh, first = np.unique(found_N, return_index=True)
        first = first[fresh >= before]
        if not len(first):
            return
        lengths = length_N[first]
        place = within((length_N.cumsum() - length_N)[first], lengths)
        needed = self.pairs + len(place)
        self.asked.bytes(12 * needed + 4 * len(self.number) * self.then_FG.shape[1])
        if needed > len(self.source_E):
            self.source_E, self.target_E = (
                np.concatenate([pairs[: self.pairs], np.empty(2 * needed - self.pairs, dtype=pairs.dtype)])
                for pairs in (self.source_E, self.target_E)
            )
        self.source_E[self.pairs : needed], self.target_E[self.pairs : needed] = source[place], target[place]
        self.begin_F = np.concatenate([self.begin_F, self.pairs + lengths.cumsum() - lengths])
        self.length_F = np.concatenate([self.length_F, lengths])
        self.pairs = needed

    def transitions(self, used_K: NDArray[np.int64]) -> Transitions:
        """Lists what some of the functions do, from places in `from_D`."""
        length_K = self.length_F[used_K]
        place = within(self.begin_F[used_K], length_K)
        kind_E = np.repeat(np.arange(len(used_K)), length_K)
        return Transitions(self.source_E[place], kind_E, self.target_E[place], len(used_K))
