"""Keeps functions from states to states, each once, and what becomes of them when a byte follows.

A function is a list of parts (see `token_parts`), without those that are empty; most functions are defined on few
states. A code stands for a function and a kind of bytes that follows. The work is done by compiled kernels
(`kernels/host/compositions.py`); where LLVM is not there by array operations, which say the same.

    D states that functions are defined on   F functions   G kinds of bytes   N nodes or codes at once   P parts
"""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from gesso.constraints import budget
from gesso.constraints.token_parts import UNKNOWN, CollisionError, Parts, batches, keep, longer
from gesso.constraints.transitions import IntArray, Transitions, addresses, host_kernels, places_of, within

__all__ = ["CollisionError", "Functions"]

_BATCH = 1 << 18
"""Parts that are looked at at a time."""


class Functions:
    """Holds functions, the identity and the one that is defined nowhere from the beginning."""

    IDENTITY: ClassVar[int] = 0
    NOWHERE: ClassVar[int] = 1

    def __init__(self, next_SG: IntArray, from_D: NDArray[np.int64], seed: int = 0) -> None:
        """The functions are defined on the states `from_D` only."""
        self.parts = Parts(next_SG, from_D, seed)
        self.groups = self.parts.groups
        count = len(self.parts.begin_P) - 1
        self.part_L = np.arange(1, count + 1, dtype=np.int32)
        """The parts of all functions, one function after the other."""
        self.begin_F, self.length_F = np.array([0, count]), np.array([count, 0])
        self.sizes = np.array([count, 2, 0])
        """Parts and functions that are kept, and whether two of the same hash were found to differ."""
        identity = int(self.parts.hash_P.sum(dtype=np.uint64))
        self.number = {identity: self.IDENTITY, 0: self.NOWHERE}
        self.asked = budget.current()
        self.then_FG = np.full((2, self.groups), UNKNOWN, dtype=np.int32)
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
            self._work_out(_unknown(codes_N, self.then_FG))
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
        for some, parts in batches(codes, self.length_F[codes // self.groups], _BATCH):
            self.asked.check()
            self._compose(some, parts)

    def _compose(self, codes_N: NDArray[np.int64], looked_at: int) -> None:
        """Finds the functions of some codes, made of so many parts."""
        parts, codes = self.parts, len(codes_N)
        if self.kernels is None:
            function_N, group_N = np.divmod(codes_N, self.groups)
            length_N = self.length_F[function_N]
            own = self.part_L.take(within(self.begin_F[function_N], length_N))
            asked = own.astype(np.int64) * self.groups + np.repeat(group_N, length_N)
            parts.work_out(_unknown(asked, parts.then_PG))
            part = parts.then_PG.ravel()[asked]
            left = np.flatnonzero(part != parts.EMPTY)
            length_N = np.bincount(np.repeat(np.arange(codes), length_N)[left], minlength=codes)
            part = part[left]
            end_N = length_N.cumsum()
            sums = np.append(np.uint64(0), parts.hash_P[part].cumsum(dtype=np.uint64))
            hashes_N = sums[end_N] - sums[end_N - length_N]
        else:
            fresh, count = np.empty(min(looked_at, parts.then_PG.size), dtype=np.int64), np.zeros(1, dtype=np.int64)
            kept = codes_N, self.begin_F, self.length_F, self.part_L
            self.kernels.ask(*addresses(*kept, parts.then_PG, fresh, count), codes, self.groups)
            parts.work_out(np.sort(fresh[: int(count[0])]))
            part = np.empty(looked_at + 1, dtype=np.int32)
            length_N, hashes_N = np.empty(codes, dtype=np.int64), np.empty(codes, dtype=np.uint64)
            made = part, length_N, hashes_N
            self.kernels.gather(*addresses(*kept, parts.then_PG, parts.hash_P, *made), codes, self.groups)
        found_N = places_of(hashes_N.tolist(), self.number)
        self._make_room(len(self.number), int(self.sizes[0]) + int(length_N.sum()))
        # A list of single numbers is one of pairs that are twice the same.
        keep(found_N, part, part, length_N, self.begin_F, self.length_F, self.part_L, self.part_L, self.sizes)
        self.asked.bytes(parts.bytes + 4 * int(self.sizes[0]) + 4 * len(self.number) * self.groups)
        # That none fell together by chance is checked.
        if self.sizes[2]:
            raise CollisionError
        self.then_FG.ravel()[codes_N] = found_N

    def _make_room(self, functions: int, parts: int) -> None:
        if functions > len(self.then_FG):
            room, used = 2 * functions, len(self.then_FG)
            self.then_FG = longer(self.then_FG, used, room)
            self.then_FG[used:] = UNKNOWN
            self.begin_F, self.length_F = longer(self.begin_F, used, room), longer(self.length_F, used, room)
            self.begin_F[used:] = self.length_F[used:] = 0
        if parts > len(self.part_L):
            self.part_L = longer(self.part_L, int(self.sizes[0]), parts + parts // 2)

    def transitions(self, used_K: NDArray[np.int64]) -> Transitions:
        """Lists what some of the functions do, from places in `from_D`.

        Raises:
            OptionError: there are too many pairs.
        """
        parts = self.parts
        counts_K = self.length_F[used_K]
        part_L = self.part_L.take(within(self.begin_F[used_K], counts_K))
        length_L = parts.length_P[part_L]
        ends = np.append(0, length_L.cumsum())
        last_K = counts_K.cumsum()
        begin_K, end_K = ends[last_K - counts_K], ends[last_K]
        self.asked.bytes(parts.bytes + 8 * int(ends[-1]))
        if self.kernels is None:
            place = within(parts.begin_P[part_L], length_L)
            return Transitions(begin_K, end_K - begin_K, parts.source_E[place], parts.target_E[place])
        source_E, target_E = np.empty(int(ends[-1]), dtype=np.int32), np.empty(int(ends[-1]), dtype=np.int32)
        kept = part_L, parts.begin_P, parts.length_P, parts.source_E, parts.target_E
        self.kernels.spell(*addresses(*kept, source_E, target_E), len(part_L))
        return Transitions(begin_K, end_K - begin_K, source_E, target_E)


def _unknown(codes: NDArray[np.int64], then: IntArray) -> NDArray[np.int64]:
    """Those of some codes of which nothing is known yet, in order and once each."""
    flags = np.zeros(then.size, dtype=np.bool_)
    flags[codes] = True
    return np.flatnonzero(flags & (then.ravel() == UNKNOWN))
