"""Defines the subset construction, with counters.

A deterministic state is a set of the graph's states, and where some of them are in a region, one for each count. All
counts of an interval for which the same steps are open are *one* state here, a counted one with a `length`: its rows
say where each of them goes, relative to its count (the same count, or the next one), but for the last of them, from
which counting leads out of the interval and which has rows of its own. So the construction takes as long for `a{4000}`
as for `a{40}`.

    S states   L counted states   G groups of bytes that no state tells apart
"""

from bisect import bisect_left
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from gesso.constraints import budget
from gesso.constraints.nondeterministic import NO_COUNT, AmbiguousCountError, Closed, Graph, SharedCountError

IntArray = NDArray[np.int32]
ABSOLUTE, SAME, NEXT = range(3)
"""How a count goes on: in the first count of the state that follows, in its own, in the one behind its own."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Holds the counted states of an automaton and their rows."""

    state_L: NDArray[np.int64]
    """Which they are, in order."""
    length_L: NDArray[np.int64]
    """How many counts each of them stands for."""
    least_bytes_L: NDArray[np.int64]
    """Of the text between two counts."""
    shift_LG: NDArray[np.uint8]
    """How the count goes on where the automaton's table leads, for all counts but the last."""
    last_LG: IntArray
    """Where the last count leads, and how it goes on; never to a next one."""
    last_shift_LG: NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Table:
    """Holds a deterministic automaton as it was found; states in the order they were found, 0 the start."""

    next_SG: IntArray
    group_B: NDArray[np.int64]
    """Of each byte."""
    accepting_S: NDArray[np.bool_]
    counts: Counts | None


def determinize(graph: Graph, begin: int, end: int) -> Table:
    """Returns the automaton of all texts that lead from `begin` to `end`.

    Raises:
        AmbiguousCountError: a counter cannot be kept.
        OptionError: it has too many states.
    """
    while True:
        with suppress(SharedCountError):
            return _Subsets(graph, begin, end).table()


class _Subsets:
    def __init__(self, graph: Graph, begin: int, end: int) -> None:
        self.graph, self.end = graph, end
        borders = {0, 256} | {border for edges in graph.edges for low, high, _ in edges for border in (low, high + 1)}
        self.borders = sorted(borders)
        place = {border: group for group, border in enumerate(self.borders)}
        self.edges = [[(place[low], place[high + 1], target) for low, high, target in edges] for edges in graph.edges]
        self.order: list[tuple[frozenset[int], tuple[int, ...], int, int]] = []
        """Of each state: the graph's states, their regions, first and last count."""
        self.number: dict[tuple[frozenset[int], int], int] = {}
        self.after: dict[tuple[frozenset[int], int], tuple[Closed, int]] = {}
        self.state(graph.closure([begin], at_begin=True))

    def state(self, closed: Closed) -> int:
        """The number of the state for a set and a count."""
        low, high = self.graph.interval(closed.regions, closed.count) if closed.regions else (NO_COUNT, NO_COUNT)
        key = (closed.states, low)
        if (found := self.number.get(key)) is None:
            found = self.number[key] = len(self.order)
            self.order.append((closed.states, closed.regions, low, high))
            if not found % 128:
                budget.current().check()
                budget.current().states(found)
        return found

    def target(self, raw: frozenset[int], count: int, low: int) -> tuple[int, int]:
        """Where a set leads that bytes lead to from the count `count` of a state whose first is `low`."""
        if (known := self.after.get((raw, count))) is None:
            closed = self.graph.closure(raw, count)
            known = self.after[raw, count] = closed, self.state(closed)
        closed, state = known
        if not closed.regions:
            return state, ABSOLUTE
        first = self.order[state][2]
        if not closed.entered and first == low:
            return state, SAME if closed.count == count else NEXT
        if closed.count != first:
            raise AmbiguousCountError({self.graph.regions[region].key for region in closed.regions})
        return state, ABSOLUTE

    def row(self, states: frozenset[int], count: int, low: int) -> tuple[IntArray, NDArray[np.uint8]]:
        groups = len(self.borders) - 1
        row, shift = np.full(groups, -1, dtype=np.int32), np.zeros(groups, dtype=np.uint8)
        edges = [edge for state in states for edge in self.edges[state]]
        if len(edges) == 1:
            ((begin, end, target),) = edges
            row[begin:end], shift[begin:end] = self.target(frozenset((target,)), count, low)
            return row, shift
        borders = sorted({border for begin, end, _ in edges for border in (begin, end)})
        targets: list[set[int]] = [set() for _ in borders]
        for begin, end, target in edges:
            for place in range(bisect_left(borders, begin), bisect_left(borders, end)):
                targets[place].add(target)
        for place, (begin, end) in enumerate(pairwise(borders)):
            if targets[place]:
                row[begin:end], shift[begin:end] = self.target(frozenset(targets[place]), count, low)
        return row, shift

    def table(self) -> Table:
        rows, counted, shifts, lasts, last_shifts = [], [], [], [], []
        for place, (states, regions, low, high) in enumerate(self.order):
            row, shift = self.row(states, low, low)
            rows.append(row)
            if regions and high > low:
                counted.append(place)
                shifts.append(shift)
                last, shift = self.row(states, high, low)
                lasts.append(last)
                last_shifts.append(shift)
            elif regions and (shift == NEXT).any():
                raise AssertionError("an only count leads to the next one")
        graph, end = self.graph, self.end
        accepting = [
            end in graph.closure(states, low, at_begin=not place, at_end=True).states
            for place, (states, _, low, _) in enumerate(self.order)
        ]
        counts = None
        if counted:
            ends = [self.order[place] for place in counted]
            counts = Counts(
                np.array(counted),
                np.array([high - low + 1 for _, _, low, high in ends]),
                np.array([min(graph.regions[region].least_bytes for region in regions) for _, regions, _, _ in ends]),
                np.stack(shifts),
                np.stack(lasts),
                np.stack(last_shifts),
            )
        group_B = np.repeat(np.arange(len(self.borders) - 1), np.diff(self.borders))
        return Table(np.stack(rows), group_B, np.array(accepting), counts)
