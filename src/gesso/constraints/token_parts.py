"""Keeps parts of functions from states to states, each once, and what becomes of them when a byte follows.

A part is what functions do from up to `WIDTH` states: a list of pairs, of a state and where it goes, always in the same
order. Of thousands of states most are inside strings, where the letters of a token change nothing; so nearly all
parts of a function are those of others, and only the few that differ are worked out. The work is done by compiled
kernels (`kernels/host/compositions.py`); where LLVM is not there by array operations, which say the same.

    S states   D states that functions are defined on   P parts   G kinds of bytes   N codes at once   E pairs
"""

from collections.abc import Iterator
from typing import ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from gesso.constraints import budget
from gesso.constraints.transitions import Hashes, IntArray, addresses, host_kernels, places_of, within

UNKNOWN = -1
"""Mark in place of a part or a function that is not worked out yet."""
WIDTH = 512
"""States of a part."""
_BATCH = 1 << 20
"""Pairs that are worked on at a time."""
_Number = TypeVar("_Number", bound=np.generic)


class CollisionError(Exception):
    """Says that two parts or functions have the same hash: all is to be done anew, with another seed."""


class Parts:
    """Holds parts of functions: from the beginning the empty one, and behind it those of the identity."""

    EMPTY: ClassVar[int] = 0

    def __init__(self, next_SG: IntArray, from_D: NDArray[np.int64], seed: int = 0) -> None:
        """The functions are defined on the states `from_D` only."""
        self.states, self.groups = next_SG.shape
        self.next_GS = np.ascontiguousarray(next_SG.T, dtype=np.int32)
        """The table by bytes first, so that what is asked for a part stays in the processor's nearest memory."""
        self.hashes = Hashes(len(from_D), self.states, seed)
        # States that much may follow are inside strings mostly, and alike: they stand together.
        own = np.argsort((next_SG >= 0).sum(axis=1)[from_D], kind="stable")
        self.source_E, self.target_E = own.astype(np.int32), from_D[own].astype(np.int32)
        first = np.arange(0, len(from_D), WIDTH)
        self.begin_P = np.append(0, first)
        self.length_P = np.append(0, np.minimum(WIDTH, len(from_D) - first))
        self.sizes = np.array([len(own), len(self.begin_P), 0])
        """Pairs and parts that are kept, and whether two of the same hash were found to differ."""
        self.hash_P = np.append(np.uint64(0), np.add.reduceat(self.hashes.of(self.source_E, self.target_E), first))
        self.number = {number: part for part, number in enumerate(self.hash_P.tolist())}
        self.asked = budget.current()
        self.then_PG = np.full((len(self.begin_P), self.groups), UNKNOWN, dtype=np.int32)
        self.then_PG[self.EMPTY] = self.EMPTY
        self.made = np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int32)
        """Room for pairs that are found, which is cheaper kept than asked for each time."""
        self.kernels = host_kernels()

    @property
    def bytes(self) -> int:
        """Returns the bytes of what is kept."""
        return int(8 * self.sizes[0] + 4 * len(self.number) * self.groups)

    def work_out(self, codes: NDArray[np.int64]) -> None:
        """Finds the parts of codes that are new, in order: each stands for a part and a kind of byte that follows.

        Raises:
            CollisionError: two parts cannot be told apart.
        """
        for some, pairs in batches(codes, self.length_P[codes // self.groups], _BATCH):
            self.asked.check()
            self._compose(some, pairs)

    def _compose(self, codes_N: NDArray[np.int64], pairs: int) -> None:
        """Finds the parts of some codes, made of so many pairs."""
        if self.kernels is None:
            source, target, length_N, hashes_N = self._pairs_of(codes_N)
        else:
            if pairs >= len(self.made[0]):
                self.made = np.empty(2 * pairs + 1, dtype=np.int32), np.empty(2 * pairs + 1, dtype=np.int32)
            source, target = self.made
            length_N, hashes_N = np.empty(len(codes_N), dtype=np.int64), np.empty(len(codes_N), dtype=np.uint64)
            kept = self.begin_P, self.length_P, self.source_E, self.target_E
            numbers = self.next_GS, self.hashes.source, self.hashes.target
            made = source, target, length_N, hashes_N
            self.kernels.compose(*addresses(codes_N, *kept, *numbers, *made), len(codes_N), self.groups, self.states)
        found_N = places_of(hashes_N.tolist(), self.number)
        self._make_room(len(self.number), int(self.sizes[0]) + int(length_N.sum()))
        self.hash_P[found_N] = hashes_N
        kept = self.begin_P, self.length_P, self.source_E, self.target_E
        keep(found_N, source, target, length_N, *kept, self.sizes)
        self.asked.bytes(self.bytes)
        # That none fell together by chance is checked.
        if self.sizes[2]:
            raise CollisionError
        self.then_PG.ravel()[codes_N] = found_N

    def _make_room(self, parts: int, pairs: int) -> None:
        if parts > len(self.then_PG):
            room, used = 2 * parts, len(self.then_PG)
            self.then_PG = longer(self.then_PG, used, room)
            self.then_PG[used:] = UNKNOWN
            self.begin_P, self.length_P = longer(self.begin_P, used, room), longer(self.length_P, used, room)
            self.begin_P[used:] = self.length_P[used:] = 0
            self.hash_P = longer(self.hash_P, used, room)
        if pairs > len(self.source_E):
            room, used = pairs + pairs // 2, int(self.sizes[0])
            self.source_E, self.target_E = longer(self.source_E, used, room), longer(self.target_E, used, room)

    def _pairs_of(
        self, codes_N: NDArray[np.int64]
    ) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64], NDArray[np.uint64]]:
        """The pairs of codes, one after the other; how many there are of each, and the sum of their hashes."""
        part_N, group_N = np.divmod(codes_N, self.groups)
        length_N = self.length_P[part_N]
        place = within(self.begin_P[part_N], length_N)
        before = self.target_E.take(place).astype(np.int64)
        target = self.next_GS.ravel().take(np.repeat(group_N * self.states, length_N) + before)
        leads = np.flatnonzero(target >= 0)
        target, source = target.take(leads), self.source_E.take(place.take(leads))
        owner = np.repeat(np.arange(len(part_N)), length_N).take(leads)
        length_N = np.bincount(owner, minlength=len(part_N))
        end_N = length_N.cumsum()
        sums = np.append(np.uint64(0), self.hashes.of(source, target).cumsum())
        return source, target, length_N, sums[end_N] - sums[end_N - length_N]


def batches(
    codes: NDArray[np.int64], length_N: NDArray[np.int64], most: int
) -> Iterator[tuple[NDArray[np.int64], int]]:
    """Yields codes of lists in batches, and the length of these lists together: at most `most`, or one list's."""
    ends, begin, before = length_N.cumsum(), 0, 0
    while begin < len(codes):
        end = max(begin + 1, int(np.searchsorted(ends, before + most, side="right")))
        yield codes[begin:end], int(ends[end - 1]) - before
        begin, before = end, int(ends[end - 1])


def keep(
    found_N: NDArray[np.int64],
    new_source: IntArray,
    new_target: IntArray,
    length_N: NDArray[np.int64],
    begin_F: NDArray[np.int64],
    length_F: NDArray[np.int64],
    source_E: IntArray,
    target_E: IntArray,
    sizes: NDArray[np.int64],
) -> None:
    """Keeps the pairs of lists that are new, and holds those of others against what is kept.

    Args:
        found_N: the number of each list; those from `sizes[1]` on are new, and come in order.
        new_source, new_target: their pairs, one list after the other, so many as `length_N` says.
        begin_F, length_F, source_E, target_E: what is kept, with room for what is new.
        sizes: pairs and lists that are kept, and whether any differed.
    """
    if (kernels := host_kernels()) is not None:
        arrays = found_N, new_source, new_target, length_N, begin_F, length_F, source_E, target_E, sizes
        kernels.keep(*addresses(*arrays), len(found_N))
        return
    fresh, first = np.unique(found_N, return_index=True)
    first = first[fresh >= sizes[1]]
    fresh = fresh[fresh >= sizes[1]]
    lengths = length_N[first]
    place = within((length_N.cumsum() - length_N)[first], lengths)
    used = int(sizes[0])
    source_E[used : used + len(place)], target_E[used : used + len(place)] = new_source[place], new_target[place]
    begin_F[fresh], length_F[fresh] = used + lengths.cumsum() - lengths, lengths
    sizes[:2] = used + len(place), sizes[1] + len(fresh)
    same = bool((length_F[found_N] == length_N).all())
    if same:
        place = within(begin_F[found_N], length_N)
        same = bool((source_E.take(place) == new_source).all() and (target_E.take(place) == new_target).all())
    sizes[2] |= not same


def longer(numbers: NDArray[_Number], used: int, room: int) -> NDArray[_Number]:
    """Returns the first `used` rows of a table, in one with room for `room`."""
    found = np.empty((room, *numbers.shape[1:]), dtype=numbers.dtype)
    found[:used] = numbers[:used]
    return found
