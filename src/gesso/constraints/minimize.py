"""Merges states that no continuation tells apart (Moore's refinement), and leaves out those that accept none.

States start out told apart by what is cheap to know of their continuations: whether the text may end, the shortest
way to an end, and the longest one. In a chain that already tells all apart, which otherwise takes as many rounds as
the chain is long. Counted states stay as they are.

    S states   G groups of bytes
"""

import numpy as np
from numpy.typing import NDArray

from gesso.constraints import budget
from gesso.constraints.determinize import Table

IntArray = NDArray[np.int32]
FAR = 2**31 - 1
"""A distance that is never covered."""
_SMALL = 256
"""States up to which rounds are cheaper than distances."""


def merged(table: Table) -> tuple[IntArray, NDArray[np.int64]]:
    """Returns of each state its number in the minimal automaton, -1 where no text is accepted from it; and of each
    number a state that has it, the numbers in the order of those."""
    states = len(table.accepting_S)
    alive = alive_states(table)
    next_SG = table.next_SG.astype(np.int64)
    small = states <= _SMALL and table.counts is None
    next_SG[(next_SG < 0) if small else (next_SG < 0) | ~alive[next_SG]] = states
    rows = np.vstack([next_SG, np.full((1, next_SG.shape[1]), states)])
    labels = np.append(table.accepting_S, False).astype(np.int64)
    if not small:
        source = np.repeat(np.arange(states + 1), rows.shape[1])
        first, second = distinct_pairs(source, rows.ravel(), states + 1)
        inner = (first != states) & (second != states)
        first, second = first[inner], second[inner]
        shortest = steps(second, first, states + 1, np.flatnonzero(labels))
        longest = heights(first, second, states + 1)
        labels = np.unique(np.stack([labels, shortest, longest]), axis=1, return_inverse=True)[1].reshape(-1)
    if table.counts is not None:
        labels[table.counts.state_L] = states + 2 + np.arange(len(table.counts.state_L))
    if not small:
        labels[np.flatnonzero(~alive)] = labels[states]
        rows[np.flatnonzero(~alive)] = states
    # States are told apart by their hashes. That none fell together by chance is checked; if so, again.
    columns = np.unique(rows, axis=1) if small else rows
    fixed = np.zeros(states + 1, dtype=np.bool_)
    if table.counts is not None:
        fixed[table.counts.state_L] = alive[table.counts.state_L]
    for seed in range(10):
        found = _refined(columns, labels, fixed, seed)
        _, firsts = np.unique(found, return_index=True)
        same = found[rows] == found[rows][firsts][found]
        if same[~fixed].all():
            break
    else:
        raise AssertionError("states fell together")
    kept = firsts[firsts != firsts[found[states]]]
    number = np.full(len(firsts), -1, dtype=np.int32)
    number[found[kept]] = np.arange(len(kept))
    return number[found[:states]], kept


def alive_states(table: Table) -> NDArray[np.bool_]:
    """Says where some text may be accepted; of counted states, for some count."""
    states = len(table.accepting_S)
    source, target = np.repeat(np.arange(states), table.next_SG.shape[1]), table.next_SG.ravel()
    if table.counts is not None:
        of_last = np.repeat(table.counts.state_L, table.next_SG.shape[1])
        source, target = np.concatenate([source, of_last]), np.concatenate([target, table.counts.last_LG.ravel()])
    first, second = distinct_pairs(source[target >= 0], target[target >= 0], states)
    return steps(second, first, states, np.flatnonzero(table.accepting_S)) < FAR


def distinct_pairs(
    source: NDArray[np.integer], target: NDArray[np.integer], states: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns each pair once, in order."""
    first, second = np.divmod(np.unique(source.astype(np.int64) * states + target), states)
    return first, second


def steps(
    source: NDArray[np.int64], target: NDArray[np.int64], states: int, starts: NDArray[np.integer]
) -> NDArray[np.int32]:
    """Returns the fewest steps from any of `starts` to each state, breadth first; `FAR` where there is no way."""
    order = np.argsort(source, kind="stable")
    begins = np.searchsorted(source[order], np.arange(states + 1))
    followers = target[order]
    steps_S = np.full(states, FAR, dtype=np.int32)
    frontier = np.asarray(starts)
    step = 0
    while len(frontier):
        steps_S[frontier] = step
        counts = begins[frontier + 1] - begins[frontier]
        places = np.repeat(begins[frontier] - counts.cumsum() + counts, counts) + np.arange(counts.sum())
        found = followers[places]
        found = found[steps_S[found] == FAR]
        # Few are sorted faster than all states are looked through.
        frontier = (
            np.unique(found) if len(found) < states // 4 else np.flatnonzero(np.bincount(found, minlength=states))
        )
        step += 1
    return steps_S


def heights(source: NDArray[np.int64], target: NDArray[np.int64], states: int) -> NDArray[np.int32]:
    """Returns the most steps from each state to one without followers; `FAR` where a way may go on for ever."""
    order = np.argsort(target, kind="stable")
    begins = np.searchsorted(target[order], np.arange(states + 1))
    before = source[order]
    left = np.bincount(source, minlength=states)
    heights = np.full(states, FAR, dtype=np.int32)
    frontier = np.flatnonzero(left == 0)
    height = 0
    while len(frontier):
        heights[frontier] = height
        counts = begins[frontier + 1] - begins[frontier]
        places = np.repeat(begins[frontier] - counts.cumsum() + counts, counts) + np.arange(counts.sum())
        found, times = np.unique(before[places], return_counts=True)
        left[found] -= times
        frontier = found[left[found] == 0]
        height += 1
    return heights


def _refined(
    rows_SG: NDArray[np.int64], labels: NDArray[np.int64], fixed: NDArray[np.bool_], seed: int
) -> NDArray[np.int64]:
    random = np.random.default_rng(seed)
    of_label = random.integers(2**64, size=len(labels), dtype=np.uint64)
    of_column = random.integers(2**64, size=rows_SG.shape[1], dtype=np.uint64)
    labels = np.unique(labels, return_inverse=True)[1]
    count = int(labels.max()) + 1
    asked = budget.current()
    while True:
        asked.check()
        hashes = (of_label[labels][rows_SG] * of_column).sum(axis=1, dtype=np.uint64)
        hashes = np.where(fixed, of_label[labels], hashes + of_label[labels] * np.uint64(seed + 3))
        labels = np.unique(hashes, return_inverse=True)[1]
        if (found := int(labels.max()) + 1) == count:
            return labels
        count = found
