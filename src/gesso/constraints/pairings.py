"""Goes through two automata at once, from pair to pair of their states.

S states of the one   T states of the other   G groups of bytes   P pairs
"""

import numpy as np
from numpy.typing import NDArray

from gesso.constraints import budget
from gesso.constraints.transitions import addresses, host_kernels

MAX_CELLS = 1 << 22
"""Pairs that there may be: a place is held for each."""


def paired(
    next_SG: NDArray[np.int32], next_TG: NDArray[np.int32], start: int
) -> tuple[NDArray[np.int64], NDArray[np.int32]] | None:
    """Returns the pairs that bytes lead to from `start`, as the state of the one times T plus that of the other, and
    the rows of each by their places among them, -1 where either has none. None where the compiled kernels are not
    there, or too many pairs could be.

    Raises:
        OptionError: there are too many.
    """
    (states, groups), width = next_SG.shape, len(next_TG)
    if states * width > MAX_CELLS or (kernels := host_kernels()) is None:
        return None
    asked = budget.current()
    # One place more, for what leads nowhere.
    numbers = np.zeros(states * width + 1, dtype=np.int32)
    room = min(states * width, asked.max_states + 1)
    queue, counts = np.empty(room, dtype=np.int64), np.zeros(1, dtype=np.int64)
    queue[0], numbers[start] = start, 1
    kernels.pair(*addresses(next_SG, next_TG, numbers, queue, counts), groups, width, room)
    pairs_P = queue[: int(counts[0])].copy()
    asked.states(len(pairs_P))
    asked.check()
    first_P, second_P = np.divmod(pairs_P, width)
    of_one, of_other = next_SG[first_P].astype(np.int64), next_TG[second_P]
    rows_PG: NDArray[np.int32] = numbers[np.where((of_one | of_other) >= 0, of_one * width + of_other, -1)] - 1
    return pairs_P, rows_PG
