"""Says which counters of an automaton do no more than come to an end.

A counter of at most so many is *only a bound*: whatever may follow near its end, and when it is used up, may follow
from its beginning as well. To leave such a counter out allows more and forbids nothing. One of at least so many is not.

    R rows   K classes of tokens   F families (the values of a counter in one place of the text)
"""

import numpy as np
from numpy.typing import NDArray

from gesso.constraints.automaton import TokenAutomaton
from gesso.constraints.transitions import REFUSED

_MAX_PAIRS = 256
"""Pairs of states that are held against each other for one family, at most."""


class Counters:
    """Holds the families of an automaton, by what their counters say."""

    def __init__(self, automaton: TokenAutomaton) -> None:
        families = automaton.families
        assert families is not None
        self._next_RK, self._moves_RK = automaton.next_SK.astype(np.int64), families.moves_RK
        self._distance_R = automaton.distance_S
        self._families = families
        count = len(families.begin_F)
        self.group_F = self._groups()
        """Families that hand their count on to each other have the same number."""
        bounds = np.array([self._only_bound(family) for family in range(count)])
        self.bound_F = np.array([bool(bounds[self.group_F == group].all()) for group in self.group_F.tolist()])
        """Whether all counters of the group are only bounds."""
        length_F = families.length_F
        self.limit_F = np.array([int(length_F[self.group_F == group].min()) for group in self.group_F.tolist()])
        """How far may be counted before what may follow is not the same."""

    def _groups(self) -> NDArray[np.int64]:
        families = self._families
        group_F = np.arange(len(families.begin_F))
        row, kind = np.nonzero(self._moves_RK)
        first = np.searchsorted(families.row_F, row, side="right") - 1
        second = np.searchsorted(families.begin_F, self._next_RK[row, kind], side="right") - 1
        for one, other in set(zip(first.tolist(), second.tolist(), strict=True)):
            if group_F[one] != group_F[other]:
                group_F[group_F == group_F[other]] = group_F[one]
        return group_F

    def _only_bound(self, family: int) -> bool:
        """Whether all rows of a family allow no more than its first."""
        first = int(self._families.row_F[family])
        seen: set[tuple[int, int]] = set()
        waiting = [(first + place, first, place) for place in range(1, int(self._families.rows_F[family]))]
        while waiting:
            follow = self._within(*waiting.pop())
            if follow is None or len(seen) > _MAX_PAIRS:
                return False
            fresh = follow - seen
            seen |= fresh
            waiting += [(row, other, 0) for row, other in fresh]
        return True

    def _within(self, row: int, other: int, place: int) -> set[tuple[int, int]] | None:
        """Rows that must allow no more than others so that `row`, `place` counts behind `other`, allows no more; None
        where it allows more however that is."""
        next_K, other_K = self._next_RK[row], self._next_RK[other]
        moves_K, other_moves_K = self._moves_RK[row], self._moves_RK[other]
        if self._distance_R[row] < self._distance_R[other]:
            return None
        alike_K = (next_K - moves_K * place == other_K) & (moves_K == other_moves_K)
        left = np.flatnonzero((next_K != REFUSED) & ~alike_K)
        plain = int(self._families.begin_F[0])
        # What follows is in no family, and what follows the other is there too, or shares its counter.
        if (other_K[left] == REFUSED).any() or (next_K[left] >= plain).any() or moves_K[left].any():
            return None
        if ((other_K[left] >= plain) & ~other_moves_K[left]).any():
            return None
        return set(zip(next_K[left].tolist(), self._row_of(other_K[left]).tolist(), strict=True))

    def _row_of(self, state_N: NDArray[np.int64]) -> NDArray[np.int64]:
        """The row of a state, of one in a family the first of it."""
        family_N = np.searchsorted(self._families.begin_F, state_N, side="right") - 1
        return np.where(family_N < 0, state_N, self._families.row_F[family_N.clip(min=0)])
