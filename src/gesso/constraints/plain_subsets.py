"""Runs the subset construction of a graph without counters in compiled kernels (`kernels/host/subsets.py`).

S states of the graph   E edges   N sets   G groups of bytes
"""

from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gesso.constraints import budget
from gesso.constraints.byte_groups import Groups
from gesso.constraints.deterministic import IntArray, Table
from gesso.constraints.nondeterministic import Graph
from gesso.constraints.transitions import addresses

if TYPE_CHECKING:
    from gesso.kernels.host.library import Compositions

_TURNS = 2_048
"""Sets that get their rows between two looks at the budget."""
_MOST = 1 << 21
"""Edges and states that are looked at in the same time, or little more."""
_SETS, _TURN, _FULL, _DONE = 0, 1, 3, 4
"""Places of what the kernel keeps count of."""


def plain_table(kernels: "Compositions", graph: Graph, groups: Groups, begin: int, end: int) -> Table:
    """Returns the automaton of all texts that lead from `begin` to `end`.

    Raises:
        OptionError: it has too many states.
    """
    first = graph.closure([begin], at_begin=True).states
    next_NG, begin_N, pool = _Sets(kernels, graph, groups, first).found()
    accepting_N = np.zeros(len(next_NG), dtype=np.bool_)
    accepting_N[np.searchsorted(begin_N, np.flatnonzero(pool == end), side="right") - 1] = True
    # Steps at an end of the text: at its begin there is the first set only.
    if graph.free_at[True] or graph.free_at[False]:
        for place in np.flatnonzero(~accepting_N).tolist() if graph.free_at[True] else [0]:
            states = pool[begin_N[place] : begin_N[place + 1]].tolist()
            accepting_N[place] |= end in graph.closure(states, at_begin=not place, at_end=True).states
    return Table(next_NG, groups.group_B, accepting_N, None)


class _Sets:
    """Holds the sets that bytes lead to and their rows, while they are found; 0 is the first."""

    def __init__(self, kernels: "Compositions", graph: Graph, groups: Groups, first: frozenset[int]) -> None:
        self.kernels, self.groups = kernels, groups.count
        self.states = states = len(graph.edges)
        source_E, *self.edges = _edges(graph, groups)
        count_S = np.bincount(source_E, minlength=states)
        order = np.argsort(source_E, kind="stable")
        self.edges = [np.append(0, count_S.cumsum()), *(numbers[order] for numbers in self.edges)]
        free_S = np.fromiter(map(len, graph.free), dtype=np.int64, count=states)
        free = np.fromiter(chain.from_iterable(graph.free), dtype=np.int32, count=int(free_S.sum()))
        kept_S = (count_S > 0) | (free_S == 0)
        kept_S[list(graph.free_at[True])] = True
        numbers = np.random.default_rng(0).integers(2**64, size=states, dtype=np.uint64)
        self.closing = np.append(0, free_S.cumsum()), free, kept_S, numbers
        self.room_S = np.zeros(states, dtype=np.int32), np.empty(states, dtype=np.int64)
        self.room_E = np.empty(len(order), dtype=np.int64), np.zeros(self.groups + 1, dtype=np.int8)
        self.ones_S = np.full(states, -1, dtype=np.int32)
        self.sizes = np.array([1, 0, 0, 0, 0])
        self.pool = np.empty(3 * states + len(first), dtype=np.int32)
        self.pool[: len(first)] = list(first)
        self.begin_N, self.hash_N, self.rows_NG = self._sets(states + 64)
        self.begin_N[:2] = 0, len(first)
        self.hash_N[0] = numbers[list(first)].sum(dtype=np.uint64)

    def _sets(self, room: int) -> tuple[NDArray[np.int64], NDArray[np.uint64], IntArray]:
        return (
            np.empty(room + 1, dtype=np.int64),
            np.empty(room, dtype=np.uint64),
            np.empty((room, self.groups), dtype=np.int32),
        )

    def found(self) -> tuple[IntArray, NDArray[np.int64], IntArray]:
        """Returns the rows of all sets, -1 where nothing follows; where the states of each begin, with an end behind
        the last; and these states.

        Raises:
            OptionError: there are too many sets.
        """
        asked, sizes = budget.current(), self.sizes
        while sizes[_TURN] < sizes[_SETS]:
            asked.check()
            asked.states(int(sizes[_SETS]))
            if sizes[_FULL]:
                self._make_room()
            sizes[_FULL] = sizes[_DONE] = 0
            room = len(self.hash_N)
            bits = (2 * room).bit_length()
            slots = np.full(1 << bits, -1, dtype=np.int32)
            arrays = *self.edges, *self.closing, *self.room_S, *self.room_E, self.ones_S, self.pool
            found = self.begin_N, self.hash_N, slots, self.rows_NG, sizes
            limits = self.groups, _TURNS, _MOST, self.states, room, len(self.pool), 64 - bits
            self.kernels.subsets(*addresses(*arrays, *found), *limits)
        sets = int(sizes[_SETS])
        asked.states(sets)
        return self.rows_NG[:sets], self.begin_N[: sets + 1], self.pool[: self.begin_N[sets]]

    def _make_room(self) -> None:
        """Doubles the room for sets, and for their states."""
        sets = int(self.sizes[_SETS])
        used = int(self.begin_N[sets])
        begin_N, hash_N, rows_NG = self.begin_N, self.hash_N, self.rows_NG
        self.begin_N, self.hash_N, self.rows_NG = self._sets(2 * len(hash_N))
        self.begin_N[: sets + 1] = begin_N[: sets + 1]
        self.hash_N[:sets], self.rows_NG[:sets] = hash_N[:sets], rows_NG[:sets]
        pool, self.pool = self.pool, np.empty(2 * len(self.pool), dtype=np.int32)
        self.pool[:used] = pool[:used]


def _edges(graph: Graph, groups: Groups) -> list[IntArray]:
    """Sources of the edges, first groups, groups behind the last, and targets."""
    place = groups.place
    plain = [
        (state, place[low], place[high + 1], target)
        for state, edges in enumerate(graph.edges)
        if edges
        for low, high, target in edges
    ]
    found = [np.array(plain, dtype=np.int32).reshape(-1, 4).T]
    for block in graph.blocks.all:
        runs = groups.kinds[id(block.next_SG)].listed.copy()
        runs[[0, 3]] += block.first
        found.append(runs)
    return list(np.concatenate(found, axis=1))
