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
from gesso.constraints.deterministic import Table
from gesso.constraints.distances import FAR, heights, steps
from gesso.constraints.transitions import IntArray, addresses, host_kernels

_SPREAD = np.uint64(0x9E3779B97F4A7C15)
"""Makes hashes of small numbers: odd, and its bits look random."""
_SMALL = 256
"""States up to which rounds are cheaper than distances."""
_AT_ONCE = 1 << 20
"""Runs that are gone through between two looks at the budget."""


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
    runs = replace(runs, target_E=number[runs.target_E])
    labels = np.append(table.accepting_S, False).astype(np.int64)
    if not small:
        inner = alive[first] & alive[second]
        first, second = first[inner], second[inner]
        # A number for what is known of a state: both distances are at most as many as there are states, or FAR.
        shortest = steps(second, first, states + 1, np.flatnonzero(labels)).clip(max=states + 1)
        longest = heights(first, second, states + 1).clip(max=states + 1)
        labels += 2 * (shortest.astype(np.int64) * (states + 2) + longest)
    fixed = np.zeros(states + 1, dtype=np.bool_)
    if table.counts is not None:
        labels[table.counts.state_L] = labels.max() + 1 + np.arange(len(table.counts.state_L))
        fixed[table.counts.state_L] = alive[table.counts.state_L]
    if not small:
        dead = np.flatnonzero(~alive)
        labels[dead] = labels[states]
        runs.target_E[~alive[runs.source_E]] = states
    # States are told apart by their hashes. That none fell together by chance is checked; if so, again.
    for seed in range(10):
        found, firsts = _refined(runs, labels, fixed, seed)
        doubles = np.flatnonzero((firsts[found] != np.arange(states + 1)) & ~fixed)
        if _alike(table.next_SG, found, doubles, firsts[found[doubles]]):
            break
    else:
        raise AssertionError("states fell together")
    kept = firsts[firsts != firsts[found[states]]]
    numbers = np.full(len(firsts), -1, dtype=np.int32)
    numbers[found[kept]] = np.arange(len(kept))
    return numbers[found[:states]], kept


def _alike(
    next_SG: IntArray, labels: NDArray[np.int64], first_N: NDArray[np.int64], second_N: NDArray[np.int64]
) -> bool:
    """Whether the same labels follow the states of each of some pairs; behind the states there is one that leads
    nowhere, and that is the last label."""
    states, groups = next_SG.shape
    if (kernels := host_kernels()) is not None:
        differs = np.zeros(1, dtype=np.int64)
        kernels.alike(*addresses(next_SG, labels, first_N, second_N, differs), len(first_N), states, groups)
        return not differs[0]
    padded = np.vstack([next_SG, np.full((1, groups), -1, dtype=next_SG.dtype)])
    return bool((labels[padded[first_N]] == labels[padded[second_N]]).all())


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
    """Each state with what follows it, as often as it does; of counted states, after some count."""
    source, target = runs.source_E, runs.target_E
    if table.counts is not None:
        source = np.concatenate([source, np.repeat(table.counts.state_L, table.next_SG.shape[1])])
        target = np.concatenate([target, table.counts.last_LG.ravel()])
    return source[target >= 0], target[target >= 0]


def _refined(
    runs: _Runs, labels: NDArray[np.int64], fixed: NDArray[np.bool_], seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Labels that tell apart what the labels before or the targets' do; and where each of them comes first."""
    random = np.random.default_rng(seed)
    of_label = random.integers(2**64, size=len(labels), dtype=np.uint64)
    # A number for each group; a run's is the sum of those of its groups.
    sums = np.append(np.uint64(0), random.integers(2**64, size=runs.groups, dtype=np.uint64).cumsum())
    (starts,) = np.nonzero(runs.begin_E == 0)
    end_E = np.append(runs.begin_E[1:], runs.groups)
    end_E[starts[1:] - 1] = runs.groups
    width_E = sums[end_E] - sums[runs.begin_E]
    begin_S = np.append(starts, len(width_E))
    labels, firsts = _numbered(labels.astype(np.uint64) * _SPREAD)
    asked = budget.current()
    hashes = np.empty(len(labels), dtype=np.uint64)
    factor = seed + 3
    if (kernels := host_kernels()) is not None:
        room = np.empty(len(labels), dtype=np.uint64)
        slots, shift = _slots(len(labels))
        counts, firsts = np.array([len(firsts), 0]), np.resize(firsts, len(labels))
        arrays = begin_S, runs.target_E, width_E, of_label, fixed, labels, room, hashes, slots, firsts, counts
        turns = max(1, _AT_ONCE // len(width_E))
        while not counts[1]:
            asked.check()
            kernels.refine(*addresses(*arrays), len(starts), sums[-1:].view(np.int64).item(), factor, shift, turns)
        return labels, firsts[: int(counts[0])]
    while True:
        asked.check()
        of_state = of_label[labels]
        np.add.reduceat(of_state.take(runs.target_E) * width_E, starts, out=hashes[:-1])
        hashes[:-1] += of_state[:-1] * np.uint64(factor)
        hashes[fixed] = of_state[fixed]
        hashes[-1:] = of_state[-1:] * (sums[-1:] + np.uint64(factor))
        count = len(firsts)
        labels, firsts = _numbered(hashes)
        if len(firsts) == count:
            return labels, firsts


def _numbered(hashes: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Numbers in the order in which they come, equal ones alike; and where each comes first."""
    size = len(hashes)
    if (kernels := host_kernels()) is None:
        _, firsts, found = np.unique(hashes, return_index=True, return_inverse=True)
        order = np.argsort(firsts)
        number = np.empty(len(firsts), dtype=np.int64)
        number[order] = np.arange(len(firsts))
        return number[found], firsts[order]
    slots, shift = _slots(size)
    firsts, labels = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64)
    count = np.zeros(1, dtype=np.int64)
    kernels.relabel(*addresses(hashes, slots, firsts, labels, count), size, shift)
    return labels, firsts[: int(count[0])]


def _slots(size: int) -> tuple[NDArray[np.int64], int]:
    """An empty table for so many hashes, and by how many bits they are shifted to be places in it."""
    bits = (2 * size).bit_length()
    return np.full(1 << bits, -1), 64 - bits
