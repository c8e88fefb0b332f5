"""Puts deterministic automata into a nondeterministic one as they are.

A block is an automaton over bytes that is compiled already: any JSON value, say. Its states are states of the graph,
numbered one after the other, but its edges are not spelled out there. Where the subset construction comes to a state
of a block and to nothing else, it takes the rows of all states behind it as they are, at once.

    S states of a block   G groups of bytes that no state of it tells apart   B = 256 bytes
"""

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gesso.constraints.distances import FAR, Followers, distinct_pairs

BlockRuns = tuple[list[int], list[int], list[int], list[int]]
"""Runs of all states of an automaton, one state after the other: where each state's runs begin; and of each run its
first group, the group behind its last, and the state that follows."""


@dataclass(frozen=True, eq=False, slots=True)
class Block:
    """Holds an automaton inside a graph; without counters."""

    first: int
    """The state of the graph that is its state 0."""
    start: int
    """Its own state that it starts in; the tables below number its own states as well."""
    next_SG: NDArray[np.int32]
    """State that follows on a group of bytes, or -1."""
    group_B: NDArray[np.int64]
    accepting_S: NDArray[np.bool_]

    @property
    def states(self) -> int:
        return len(self.accepting_S)

    @property
    def final_S(self) -> NDArray[np.bool_]:
        """Tells the states that nothing follows."""
        return np.asarray((self.next_SG < 0).all(axis=1))

    @property
    def borders(self) -> list[int]:
        """Lists the bytes that are not in the group of the byte before."""
        found: list[int] = (np.flatnonzero(np.diff(self.group_B)) + 1).tolist()
        return found


class Blocks:
    """Holds the blocks of a graph, found by their states."""

    def __init__(self) -> None:
        self.all: list[Block] = []
        self._firsts: list[int] = []

    def add(self, block: Block) -> None:
        """Adds a block, whose states stand behind those of the others."""
        self.all.append(block)
        self._firsts.append(block.first)

    def at(self, state: int) -> Block:
        """Returns the block that a state is in."""
        return self.all[bisect_right(self._firsts, state) - 1]


class Kind:
    """Holds the automaton that several blocks are, over the groups of bytes of the whole graph."""

    def __init__(self, block: Block, firsts: NDArray[np.int64]) -> None:
        """`firsts` has the first byte of each group."""
        self.next_SG = block.next_SG[:, block.group_B[firsts]]
        self.accepting_S = block.accepting_S
        self._number_S = np.full(block.states + 1, -1, dtype=np.int32)
        self._steps_S = np.full(block.states, FAR, dtype=np.int32)

    @cached_property
    def runs(self) -> BlockRuns:
        """Returns the runs of its states."""
        return runs_of(self.next_SG)

    @cached_property
    def listed(self) -> NDArray[np.int32]:
        """Returns the same runs as rows: of all the state, the first group, the group behind the last, what follows."""
        begins, *runs = self.runs
        return np.array([np.repeat(np.arange(len(begins) - 1), np.diff(begins)), *runs], dtype=np.int32)

    @cached_property
    def _followers(self) -> Followers:
        # A state in which the text may end is another one where a block stands: for what is behind the block, too.
        rows = np.flatnonzero(~self.accepting_S)
        place, group = np.nonzero(self.next_SG[rows] >= 0)
        pairs = distinct_pairs(rows[place], self.next_SG[rows[place], group], len(self.accepting_S))
        return Followers(*pairs, len(self.accepting_S))

    def reached(self, place: int, known: dict[int, int]) -> NDArray[np.int64]:
        """Returns in order the states that can be reached from one, and not through those that are known."""
        seen = np.fromiter(known, dtype=np.int64, count=len(known))
        self._steps_S[seen] = 0
        found = np.sort(self._followers.reach(self._steps_S, np.array([place])))
        self._steps_S[seen] = self._steps_S[found] = FAR
        return found

    def rows(self, fresh: NDArray[np.int64], number: dict[int, int]) -> NDArray[np.int32]:
        """Returns the rows of some states in other numbers."""
        places = np.fromiter(number, dtype=np.int64, count=len(number))
        self._number_S[places] = np.fromiter(number.values(), dtype=np.int32, count=len(number))
        found = self._number_S[self.next_SG[fresh]]
        self._number_S[places] = -1
        return found


class Entered:
    """Holds the numbers that the states of a block have which was come to, or of several of a kind at once.

    Only those are numbered that can be reached from where it was come to. Where the text may end, the number is that of
    the state which is for what is behind the block as well.
    """

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.number: dict[int, int] = {}
        self.ends: list[int] = []
        """States in which the text may end, and that have no number yet."""

    def enter(self, place: int, first: int) -> NDArray[np.int64]:
        """Numbers a state and what can be reached from it, from `first` on, where there is no number yet; returns
        those states."""
        found = self.kind.reached(place, {**self.number, **dict.fromkeys(self.ends, -1)} if self.ends else self.number)
        accepting = self.kind.accepting_S[found]
        self.ends += found[accepting].tolist()
        fresh = found[~accepting]
        self.number.update(zip(fresh.tolist(), range(first, first + len(fresh)), strict=True))
        return fresh


def runs_of(next_SG: NDArray[np.int32]) -> BlockRuns:
    """Returns the runs of neighbouring groups that lead to the same state, without those that lead nowhere."""
    states, groups = next_SG.shape
    changes = np.ones((states, groups), dtype=np.bool_)
    np.not_equal(next_SG[:, 1:], next_SG[:, :-1], out=changes[:, 1:])
    places = np.flatnonzero(changes)
    ends = np.append(places[1:], states * groups)
    targets = next_SG.ravel()[places]
    leads = targets >= 0
    state_R, low_R = np.divmod(places[leads], groups)
    begins = np.searchsorted(state_R, np.arange(states + 1))
    return begins.tolist(), low_R.tolist(), (ends[leads] - state_R * groups).tolist(), targets[leads].tolist()
