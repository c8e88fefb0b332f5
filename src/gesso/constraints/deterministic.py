"""Defines deterministic automata as the subset construction finds them, before states are merged.

S states   L counted states   G groups of bytes that no state tells apart   B = 256 bytes
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int32]
ABSOLUTE, SAME, NEXT = range(3)
"""How a count goes on: in the first count of the state that follows, in its own, in the one behind its own."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Holds the counted states of an automaton and their rows."""

    state_L: NDArray[np.int64]
    """The counted states, in order."""
    length_L: NDArray[np.int64]
    """How many counts each of them stands for."""
    least_bytes_L: NDArray[np.int64]
    """Bytes of the text between two counts, at least."""
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
    """Group of each byte."""
    accepting_S: NDArray[np.bool_]
    counts: Counts | None


def breadth_first(table: Table) -> Table:
    """Numbers the states of a table without counters as the compiled kernels do: in the order of the first of the
    shortest texts that lead to each."""
    assert table.counts is None
    number_S = np.full(len(table.next_SG) + 1, -1, dtype=np.int32)
    number_S[0] = 0
    order = [0]
    for state in order:
        for target in dict.fromkeys(table.next_SG[state].tolist()):
            if target >= 0 and number_S[target] < 0:
                number_S[target] = len(order)
                order.append(target)
    return Table(number_S[table.next_SG[order]], table.group_B, table.accepting_S[order], None)
