"""Merges states that no continuation tells apart (Moore's refinement), and leaves out those that accept none.

States start out told apart by what is cheap to know of their continuations: whether the text may end, the shortest
way to an end, and the longest one. In a chain that already tells all apart, which otherwise takes as many rounds as
the chain is long. Counted states stay as they are.

    S states   G groups of bytes
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gesso.constraints import budget
from gesso.constraints.determinize import Table
from gesso.constraints.transitions import addresses, by_source, host_kernels

IntArray = NDArray[np.int32]
FAR = 2**31 - 1
"""A distance that is never covered."""
_SMALL = 256
"""States up to which rounds are cheaper than distances."""


def merged(table: Table) -> tuple[IntArray, NDArray[np.int64]]:
    """Returns of each state its number in the minimal automaton, -1 where no text is accepted from it; and of each
    number a state that has it, the numbers in the order of those."""
    states = len(table.accepting_S)
    runs = _Runs.of(table.next_SG)
    first, second = _pairs(table, runs)
    alive = np.append(steps(second, first, states, np.flatnonzero(table.accepting_S)) < FAR, False)
    small = states <= _SMALL and table.counts is None
    # What is dead or refused is one state, the last.
    number = np.append(np.where(alive[:-1] | small, np.arange(states), states), states)
    rows = np.vstack([number[table.next_SG], np.full((1, table.next_SG.shape[1]), states)])
    runs = replace(runs, target_E=number[runs.target_E])
    labels = np.append(table.accepting_S, False).astype(np.int64)
    if not small:
        inner = alive[first] & alive[second]
        first, second = first[inner], second[inner]
        # A number for what is known of a state: both distances are at most as many as there are states, or FAR.
        shortest = steps(second, first, states + 1, np.flatnonzero(labels)).clip(max=states + 1)
        longest = heights(first, second, states + 1).clip(max=states + 1)
        labels += 2 * (shortest.astype(np.int64) * (states + 2) + longest)
        labels = np.unique(labels, return_inverse=True)[1]
    fixed = np.zeros(states + 1, dtype=np.bool_)
    if table.counts is not None:
        labels[table.counts.state_L] = states + 2 + np.arange(len(table.counts.state_L))
        fixed[table.counts.state_L] = alive[table.counts.state_L]
    if not small:
        dead = np.flatnonzero(~alive)
        labels[dead] = labels[states]
        rows[dead] = states
        runs.target_E[~alive[runs.source_E]] = states
    # States are told apart by their hashes. That none fell together by chance is checked; if so, again.
    for seed in range(10):
        found = _refined(runs, labels, fixed, seed)
        _, firsts = np.unique(found, return_index=True)
        doubles = np.flatnonzero((firsts[found] != np.arange(states + 1)) & ~fixed)
        if (found[rows[doubles]] == found[rows[firsts[found[doubles]]]]).all():
            break
    else:
        raise AssertionError("states fell together")
    kept = firsts[firsts != firsts[found[states]]]
    numbers = np.full(len(firsts), -1, dtype=np.int32)
    numbers[found[kept]] = np.arange(len(kept))
    return numbers[found[:states]], kept


@dataclass(frozen=True, slots=True)
class _Runs:
    """Neighbouring groups of bytes that lead from a state to the same one, of all states one after the other."""

    source_E: NDArray[np.int64]
    target_E: NDArray[np.int64]
    """Or -1."""
    begin_E: NDArray[np.int64]
    """The first group of each; the next one begins behind the last, or the row ends."""
    groups: int

    @classmethod
    def of(cls, next_SG: NDArray[np.integer]) -> "_Runs":
        changes = np.ones(next_SG.shape, dtype=np.bool_)
        np.not_equal(next_SG[:, 1:], next_SG[:, :-1], out=changes[:, 1:])
        place_E = np.flatnonzero(changes)
        source_E, begin_E = np.divmod(place_E, next_SG.shape[1])
        return cls(source_E, next_SG.ravel()[place_E].astype(np.int64), begin_E, next_SG.shape[1])


def _pairs(table: Table, runs: _Runs) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Each state with each that follows it; of counted states, after some count."""
    source, target = runs.source_E, runs.target_E
    if table.counts is not None:
        source = np.concatenate([source, np.repeat(table.counts.state_L, table.next_SG.shape[1])])
        target = np.concatenate([target, table.counts.last_LG.ravel()])
    return distinct_pairs(source[target >= 0], target[target >= 0], len(table.accepting_S))


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
    steps_S = np.full(states, FAR, dtype=np.int32)
    if (kernels := host_kernels()) is not None:
        begin, length = np.zeros(1, dtype=np.int64), np.array([len(source)])
        pairs = source.astype(np.int32), target.astype(np.int32)
        begins, found = by_source(kernels, begin, length, *pairs, states)
        queue, steps_S[starts] = np.empty(states, dtype=np.int64), 0
        queue[: len(starts)] = starts
        kernels.reach(*addresses(begins, found, steps_S, queue), len(starts), FAR)
        return steps_S
    order = np.argsort(source, kind="stable")
    begins = np.searchsorted(source[order], np.arange(states + 1))
    followers = target[order]
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


def _refined(runs: _Runs, labels: NDArray[np.int64], fixed: NDArray[np.bool_], seed: int) -> NDArray[np.int64]:
    random = np.random.default_rng(seed)
    of_label = random.integers(2**64, size=len(labels), dtype=np.uint64)
    # A number for each group; a run's is the sum of those of its groups.
    sums = np.append(np.uint64(0), random.integers(2**64, size=runs.groups, dtype=np.uint64).cumsum())
    (starts,) = np.nonzero(runs.begin_E == 0)
    end_E = np.append(runs.begin_E[1:], runs.groups)
    end_E[starts[1:] - 1] = runs.groups
    width_E = sums[end_E] - sums[runs.begin_E]
    labels = np.unique(labels, return_inverse=True)[1]
    count = int(labels.max()) + 1
    asked = budget.current()
    hashes = np.empty(len(labels), dtype=np.uint64)
    while True:
        asked.check()
        of_state = of_label[labels]
        np.add.reduceat(of_state.take(runs.target_E) * width_E, starts, out=hashes[:-1])
        hashes[-1:] = of_state[-1:] * sums[-1:]
        hashes = np.where(fixed, of_state, hashes + of_state * np.uint64(seed + 3))
        labels = np.unique(hashes, return_inverse=True)[1]
        if (found := int(labels.max()) + 1) == count:
            return labels
        count = found
