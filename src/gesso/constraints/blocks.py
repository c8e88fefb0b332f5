"""Puts deterministic automata into a nondeterministic one as they are.

A block is an automaton over bytes that is compiled already: any JSON value, say. Its states are states of the graph,
numbered one after the other, but its edges are not spelled out there. Where the subset construction comes to the start
of a block and to nothing else, it takes the block's rows as they are, all at once.

    S states of a block   G groups of bytes that no state of it tells apart   B = 256 bytes
"""

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

BlockRuns = tuple[list[int], list[int], list[int], list[int]]
"""Of an automaton's states one after the other: where their runs begin; of each run the first group, the group behind
the last, and the state that follows."""


@dataclass(frozen=True, eq=False, slots=True)
class Block:
    """Holds an automaton inside a graph; without counters."""

    first: int
    """The state of the graph that is its state 0."""
    start: int
    """Of its own states, as are those that follow."""
    next_SG: NDArray[np.int32]
    """What follows, or -1."""
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
