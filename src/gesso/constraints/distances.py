"""Finds how far the states of a graph are from each other: the fewest steps to each of them, the most to an end.

S states   P pairs of a state and one that follows it
"""

import numpy as np
from numpy.typing import NDArray

from gesso.constraints.transitions import addresses, by_source, host_kernels, within

FAR = 2**31 - 1
"""A distance that is never covered."""


def distinct_pairs(
    source: NDArray[np.integer], target: NDArray[np.integer], states: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns each pair once, in order."""
    first, second = np.divmod(np.unique(source.astype(np.int64) * states + target), states)
    return first, second


class Followers:
    """Holds what follows each state, sorted once and asked as often as one likes."""

    def __init__(self, source_P: NDArray[np.integer], target_P: NDArray[np.integer], states: int) -> None:
        self.kernels = host_kernels()
        if self.kernels is not None:
            begin, length = np.zeros(1, dtype=np.int64), np.array([len(source_P)])
            pairs = source_P.astype(np.int32), target_P.astype(np.int32)
            self.begin_S, self.target_P = by_source(self.kernels, begin, length, *pairs, states)
            self.queue_S = np.empty(states, dtype=np.int64)
        else:
            order = np.argsort(source_P, kind="stable")
            self.begin_S = np.searchsorted(source_P[order], np.arange(states + 1))
            self.target_P = target_P[order].astype(np.int32)

    def reach(self, steps_S: NDArray[np.int32], starts: NDArray[np.integer]) -> NDArray[np.int64]:
        """Writes the fewest steps from any of `starts` to each state, breadth first, where `steps_S` has `FAR`; what
        has another number is gone through no more. Returns the states that were come to, `starts` in front."""
        steps_S[starts] = 0
        if self.kernels is not None:
            self.queue_S[: len(starts)] = starts
            count = np.zeros(1, dtype=np.int64)
            arrays = self.begin_S, self.target_P, steps_S, self.queue_S, count
            self.kernels.reach(*addresses(*arrays), len(starts), FAR)
            return self.queue_S[: int(count[0])]
        found = [np.asarray(starts, dtype=np.int64)]
        while len(found[-1]):
            followers = np.unique(self.target_P[self.places(found[-1])])
            found.append(followers[steps_S[followers] == FAR].astype(np.int64))
            steps_S[found[-1]] = len(found) - 1
        return np.concatenate(found)

    def places(self, states: NDArray[np.integer]) -> NDArray[np.int64]:
        """Returns where the followers of some states are."""
        return within(self.begin_S[states], self.begin_S[states + 1] - self.begin_S[states])


def steps(
    source: NDArray[np.int64], target: NDArray[np.int64], states: int, starts: NDArray[np.integer]
) -> NDArray[np.int32]:
    """Returns the fewest steps from any of `starts` to each state; `FAR` where there is no way."""
    steps_S = np.full(states, FAR, dtype=np.int32)
    Followers(source, target, states).reach(steps_S, starts)
    return steps_S


def heights(source: NDArray[np.int64], target: NDArray[np.int64], states: int) -> NDArray[np.int32]:
    """Returns the most steps from each state to one without followers; `FAR` where a way may go on for ever."""
    before = Followers(target, source, states)
    left_S = np.bincount(source, minlength=states)
    heights_S = np.full(states, FAR, dtype=np.int32)
    frontier = np.flatnonzero(left_S == 0)
    heights_S[frontier] = 0
    if before.kernels is not None:
        before.queue_S[: len(frontier)] = frontier
        arrays = before.begin_S, before.target_P, left_S, heights_S, before.queue_S
        before.kernels.heights(*addresses(*arrays), len(frontier))
        return heights_S
    height = 0
    while len(frontier):
        heights_S[frontier] = height
        found, times = np.unique(before.target_P[before.places(frontier)], return_counts=True)
        left_S[found] -= times
        frontier = found[left_S[found] == 0]
        height += 1
    return heights_S
