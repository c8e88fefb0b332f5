"""Keeps functions from states to states, each once, and what becomes of them when a byte follows.

A function is a list of pairs, of a state and where it goes, in order of the states; most functions are defined on few.
A code stands for a function and a kind of bytes that follows. The work is done by compiled kernels
(`kernels/host/compositions.py`); where LLVM is not there by array operations, which say the same.

    S states   D states that functions are defined on   F functions   G kinds of bytes   N nodes or codes at once
    E pairs
"""

from typing import ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from gesso.constraints import budget
from gesso.constraints.transitions import (
    Hashes,
    IntArray,
    Transitions,
    addresses,
    host_kernels,
    places_of,
    within,
)

_UNKNOWN = -1
_BATCH = 1 << 20
"""Pairs that are worked on at a time."""
_Number = TypeVar("_Number", bound=np.generic)


class CollisionError(Exception):
    """Says that two functions have the same hash: all is to be done anew, with another seed."""


class Functions:
    """Holds functions, the identity and the one that is defined nowhere from the beginning."""

    IDENTITY: ClassVar[int] = 0
    NOWHERE: ClassVar[int] = 1

    def __init__(self, next_SG: IntArray, from_D: NDArray[np.int64], seed: int = 0) -> None:
        """The functions are defined on the states `from_D` only."""
        self.groups = next_SG.shape[1]
        self.next_SG = np.ascontiguousarray(next_SG, dtype=np.int32)
        self.hashes = Hashes(len(from_D), len(next_SG), seed)
        own = np.arange(len(from_D), dtype=np.int32)
        self.source_E, self.target_E = own, from_D.astype(np.int32)
        self.begin_F, self.length_F = np.array([0, len(own)]), np.array([len(own), 0])
        self.sizes = np.array([len(own), 2, 0])
        """Pairs and functions that are kept, and whether two of the same hash were found to differ."""
        identity = int(self.hashes.of(own, from_D).sum(dtype=np.uint64))
        self.number = {identity: self.IDENTITY, 0: self.NOWHERE}
        self.asked = budget.current()
        self.then_FG = np.full((2, self.groups), _UNKNOWN, dtype=np.int32)
        self.made = np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int32)
        """Room for pairs that are found, which is cheaper kept than asked for each time."""
        self.kernels = host_kernels()

    def descend(
        self,
        above_N: NDArray[np.int32],
        parents_N: NDArray[np.int32],
        labels_N: NDArray[np.uint8],
        group_B: NDArray[np.int64],
    ) -> NDArray[np.int32]:
        """Returns the functions of a level of nodes: those of their parents with one more byte.

        Args:
            above_N: the functions of the level above.
            parents_N: each node's place in it.
            labels_N: the byte on the way to each node.
            group_B: the kind of each byte.

        Raises:
            CollisionError: two functions cannot be told apart.
        """
        function_N: NDArray[np.int32]
        if self.kernels is None:
            codes_N = above_N[parents_N].astype(np.int64) * self.groups + group_B[labels_N]
            flags = np.zeros(self.then_FG.size, dtype=np.bool_)
            flags[codes_N] = True
            self._work_out(np.flatnonzero(flags & (self.then_FG.ravel() == _UNKNOWN)))
            function_N = self.then_FG.ravel()[codes_N]
            return function_N
        nodes = len(parents_N)
        codes_N = np.empty(nodes, dtype=np.int64)
        fresh, count = np.empty(min(nodes, self.then_FG.size), dtype=np.int64), np.zeros(1, dtype=np.int64)
        arrays = above_N, parents_N, labels_N, group_B, self.then_FG, codes_N, fresh, count
        self.kernels.descend(*addresses(*arrays), nodes, self.groups)
        self._work_out(np.sort(fresh[: int(count[0])]))
        function_N = np.empty(nodes, dtype=np.int32)
        self.kernels.land(*addresses(codes_N, self.then_FG, function_N), nodes)
        return function_N

    def _work_out(self, codes: NDArray[np.int64]) -> None:
        """Finds the functions of codes that are new, in order."""
        ends = self.length_F[codes // self.groups].cumsum()
        begin = 0
        while begin < len(codes):
            self.asked.check()
            before = int(ends[begin - 1]) if begin else 0
            end = max(begin + 1, int(np.searchsorted(ends, before + _BATCH, side="right")))
            self._compose(codes[begin:end], int(ends[end - 1]) - before)
            begin = end

    def _compose(self, codes_N: NDArray[np.int64], pairs: int) -> None:
        """Finds the functions of some codes, made of so many pairs."""
        if self.kernels is None:
            source, target, length_N, hashes_N = self._pairs_of(codes_N)
        else:
            if pairs >= len(self.made[0]):
                self.made = np.empty(2 * pairs + 1, dtype=np.int32), np.empty(2 * pairs + 1, dtype=np.int32)
            source, target = self.made
            length_N, hashes_N = np.empty(len(codes_N), dtype=np.int64), np.empty(len(codes_N), dtype=np.uint64)
            kept = self.begin_F, self.length_F, self.source_E, self.target_E
            numbers = self.next_SG, self.hashes.source, self.hashes.target
            made = source, target, length_N, hashes_N
            self.kernels.compose(*addresses(codes_N, *kept, *numbers, *made), len(codes_N), self.groups)
        found_N = places_of(hashes_N.tolist(), self.number)
        self._make_room(len(self.number), int(self.sizes[0]) + int(length_N.sum()))
        if self.kernels is None:
            self._keep(found_N, source, target, length_N)
        else:
            kept = self.begin_F, self.length_F, self.source_E, self.target_E
            self.kernels.keep(*addresses(found_N, source, target, length_N, *kept, self.sizes), len(codes_N))
        self.asked.bytes(8 * int(self.sizes[0]) + 4 * len(self.number) * self.groups)
        # That none fell together by chance is checked.
        if self.sizes[2]:
            raise CollisionError
        self.then_FG.ravel()[codes_N] = found_N

    def _make_room(self, functions: int, pairs: int) -> None:
        if functions > len(self.then_FG):
            room, used = 2 * functions, len(self.then_FG)
            self.then_FG = _longer(self.then_FG, used, room)
            self.then_FG[used:] = _UNKNOWN
            self.begin_F, self.length_F = _longer(self.begin_F, used, room), _longer(self.length_F, used, room)
            self.begin_F[used:] = self.length_F[used:] = 0
        if pairs > len(self.source_E):
            room, used = pairs + pairs // 2, int(self.sizes[0])
            self.source_E, self.target_E = _longer(self.source_E, used, room), _longer(self.target_E, used, room)

    def _pairs_of(
        self, codes_N: NDArray[np.int64]
    ) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64], NDArray[np.uint64]]:
        """The pairs of codes, one after the other; how many there are of each, and the sum of their hashes."""
        function_N, group_N = np.divmod(codes_N, self.groups)
        length_N = self.length_F[function_N]
        place = within(self.begin_F[function_N], length_N)
        before = self.target_E.take(place).astype(np.int64)
        target = self.next_SG.ravel().take(before * self.groups + np.repeat(group_N, length_N))
        leads = np.flatnonzero(target >= 0)
        target, source = target.take(leads), self.source_E.take(place.take(leads))
        owner = np.repeat(np.arange(len(function_N)), length_N).take(leads)
        length_N = np.bincount(owner, minlength=len(function_N))
        end_N = length_N.cumsum()
        sums = np.append(np.uint64(0), self.hashes.of(source, target).cumsum())
        return source, target, length_N, sums[end_N] - sums[end_N - length_N]

    def _keep(
        self, found_N: NDArray[np.int64], source: IntArray, target: IntArray, length_N: NDArray[np.int64]
    ) -> None:
        """Keeps the pairs of functions that are new, and holds those of others against what is kept."""
        fresh, first = np.unique(found_N, return_index=True)
        first = first[fresh >= self.sizes[1]]
        fresh = fresh[fresh >= self.sizes[1]]
        lengths = length_N[first]
        place = within((length_N.cumsum() - length_N)[first], lengths)
        used = int(self.sizes[0])
        self.source_E[used : used + len(place)], self.target_E[used : used + len(place)] = source[place], target[place]
        self.begin_F[fresh], self.length_F[fresh] = used + lengths.cumsum() - lengths, lengths
        self.sizes[:2] = used + len(place), self.sizes[1] + len(fresh)
        same = bool((self.length_F[found_N] == length_N).all())
        if same:
            place = within(self.begin_F[found_N], length_N)
            same = bool((self.source_E.take(place) == source).all() and (self.target_E.take(place) == target).all())
        self.sizes[2] = not same

    def transitions(self, used_K: NDArray[np.int64]) -> Transitions:
        """Lists what some of the functions do, from places in `from_D`."""
        pairs = int(self.sizes[0])
        return Transitions(self.begin_F[used_K], self.length_F[used_K], self.source_E[:pairs], self.target_E[:pairs])


def _longer(numbers: NDArray[_Number], used: int, room: int) -> NDArray[_Number]:
    """The first `used` rows of a table, in one with room for `room`."""
    longer = np.empty((room, *numbers.shape[1:]), dtype=numbers.dtype)
    longer[:used] = numbers[:used]
    return longer
