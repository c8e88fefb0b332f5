"""Defines the states that matter to one canvas.

Without counters that is the whole automaton, made ready once. With them it is cut out for each canvas: what can be
reached from where the canvas starts within as many tokens as it has. A counter that cannot meet its end on this canvas
takes no part, for all its values so far from the end are followed by the same: they stand here as one.

A counter that could meet its end, but only by way of many long tokens, is first left out all the same: a *relaxed*
window allows whatever the exact one does, and more. Its best canvas, where it is valid, is the best of all; and how
much its other results can be wrong by is bounded by how likely it makes it to count that far (`stays.Stays`).

    S states of the window   R rows of the automaton   K classes of tokens
    P pairs of a state and one that follows it   L distinct sets of classes between such pairs
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from gesso.constraints.automaton import Families, TokenAutomaton
from gesso.constraints.counters import Counters
from gesso.constraints.scan import Scan
from gesso.constraints.segments import Segments
from gesso.constraints.stays import FloatArray, Stays
from gesso.constraints.transitions import REFUSED

MAX_STATES = 60_000
"""States of a window. Where more could be reached, counters go no further on one canvas than this leaves room for."""
_KEPT, _KEPT_STATES = 8, 2 * MAX_STATES
"""Windows that are kept, and their states together."""
_Key = tuple[tuple[int, ...], int, frozenset[int] | None]
"""Key of a window: starts, width, and the groups of counters that are kept; None keeps all."""


@dataclass(frozen=True, eq=False)
class Window:
    """Holds states of an automaton, numbered anew in their order, and the pairs of them."""

    automaton: TokenAutomaton
    state_S: NDArray[np.int64]
    source_P: NDArray[np.int64]
    target_P: NDArray[np.int64]
    set_P: NDArray[np.int64]
    """Set of each pair, among the sets of this window."""
    set_L: NDArray[np.int64]
    """Sets of the automaton that stand between pairs of the window."""
    whole: bool
    """Whether it is all of the automaton."""
    stays: Stays | None = None
    """Counters that a relaxed window leaves out, and what counts with them."""

    @cached_property
    def scan(self) -> Scan:
        return Scan(self.source_P, self.target_P, self.set_P, len(self.state_S))

    @cached_property
    def pairs_of_set(self) -> Segments:
        return Segments(self.set_P, len(self.set_L), torch.device("cpu"))

    def prepare(self) -> None:
        """Makes what else is made when it is first asked for."""
        _ = self.scan, self.pairs_of_set

    def first(self, starts: list[int]) -> FloatArray:
        """Returns [S] log weights of where a canvas starts."""
        first_S = np.full(len(self.state_S), -math.inf)
        first_S[starts] = 0.0
        return first_S

    def last(self, budget: int | None) -> FloatArray:
        """Returns [S] log weights of where it may end, when `budget` tokens may follow."""
        if budget is None:
            return np.zeros(len(self.state_S))
        return np.where(self.automaton.distances(self.state_S) <= budget, 0.0, -math.inf)


class Windows:
    """Holds the pairs of an automaton, and the windows on it."""

    def __init__(self, automaton: TokenAutomaton) -> None:
        self.automaton = automaton
        rows = len(automaton.next_SK)
        row, kind = np.nonzero(automaton.next_SK != REFUSED)
        target = automaton.next_SK[row, kind].astype(np.int64)
        families = automaton.families
        # A target is told from a relative one that says the same.
        width = 2 * automaton.states
        moves = 0 if families is None else families.moves_RK[row, kind]
        pairs, pair = np.unique(row * width + 2 * target + moves, return_inverse=True)
        self.row: NDArray[np.int64] = pairs // width
        codes: NDArray[np.int64] = pairs % width
        self.target, self.moves = np.divmod(codes, 2)
        sets = np.split(kind[np.argsort(pair, kind="stable")], np.bincount(pair).cumsum()[:-1])
        number: dict[bytes, int] = {}
        self.set = np.array([number.setdefault(kinds.tobytes(), len(number)) for kinds in sets])
        self.kind_E = np.concatenate([np.frombuffer(kinds, dtype=kind.dtype) for kinds in number])
        self.set_E = np.repeat(np.arange(len(number)), [len(kinds) // kind.itemsize for kinds in number])
        self.sets = len(number)
        self._begins = np.searchsorted(self.row, np.arange(rows + 1))
        self._kept: dict[_Key, Window] = {}
        if families is not None:
            self._families = families
            self._longest_step = self._count_steps(families)
            self._counters = Counters(automaton)

    @cached_property
    def whole(self) -> Window:
        """Returns the window of all states."""
        return Window(
            self.automaton,
            np.arange(self.automaton.states),
            self.row,
            self.target,
            self.set,
            np.arange(self.sets),
            True,
        )

    def window(self, starts: list[int], width: int) -> tuple[Window, list[int]]:
        """Returns the window for a canvas of `width` tokens, and the states it starts from, as the window numbers
        them."""
        if self.automaton.families is None:
            return self.whole, starts
        far_F = np.maximum(self._longest_step * width + 1, self._families.rows_F)
        first = self._level(np.array(starts), far_F)
        window = self._keep((tuple(first.tolist()), width, None), lambda: self._cut(first, width, far_F))
        return window, np.searchsorted(window.state_S, first).tolist()

    def relaxed(self, starts: list[int], width: int, live: frozenset[int]) -> tuple[Window, list[int]] | None:
        """Returns the window for a canvas of `width` tokens without the counters that are only bounds, but for those of
        the groups `live`, and the states it starts from, as it numbers them; None where there is nothing to leave
        out."""
        if self.automaton.families is None:
            return None
        counters, families = self._counters, self._families
        far_F = np.maximum(self._longest_step * width + 1, families.rows_F)
        out_F = counters.bound_F & ~np.isin(counters.group_F, list(live)) & (families.length_F < far_F)
        if not out_F.any():
            return None
        far_F = np.where(out_F, 0, far_F)
        first = self._level(np.array(starts), far_F)
        key = tuple(starts), width, live
        window = self._keep(key, lambda: self._cut(first, width, far_F, out_F, np.array(starts)))
        return window, np.searchsorted(window.state_S, first).tolist()

    def last_counter(self, start: int, tokens: list[int]) -> frozenset[int]:
        """Returns the group of the last counter that was begun where tokens are no longer valid; all groups where none
        was."""
        state, last = start, -1
        for token in tokens:
            family = int(np.searchsorted(self._families.begin_F, state, side="right")) - 1
            last = family if family >= 0 else last
            if (state := self.automaton.advance(state, [token])) < 0:
                break
        groups = self._counters.group_F
        return frozenset(groups.tolist() if last < 0 else [int(groups[last])])

    def _keep(self, key: _Key, make: Callable[[], Window]) -> Window:
        if (window := self._kept.get(key)) is None:
            window = make()
            # Those of the canvas that is being denoised, of a few requests.
            self._kept[key] = window
            while len(self._kept) > _KEPT or sum(len(kept.state_S) for kept in [*self._kept.values()]) > _KEPT_STATES:
                self._kept.pop(next(iter(self._kept)), None)
        return window

    def _count_steps(self, families: Families) -> int:
        """How many times a token counts at most."""
        of_family = np.asarray(np.searchsorted(families.row_F, self.row, side="right")) - 1
        inside = (self.moves > 0) & (of_family >= 0)
        target = self.target[inside]
        target_family = np.searchsorted(families.begin_F, target, side="right") - 1
        here = self.row[inside] - families.row_F[of_family[inside]]
        return int((target - families.begin_F[target_family] - here).max(initial=0))

    def _level(self, state_N: NDArray[np.int64], far_F: NDArray[np.int64]) -> NDArray[np.int64]:
        """States, those whose counter is at least `far_F` from its end replaced by the first of their family."""
        families = self._families
        family_N = np.searchsorted(families.begin_F, state_N, side="right") - 1
        inside = family_N >= 0
        family_N = family_N.clip(min=0)
        begin_N = families.begin_F[family_N]
        left_N = begin_N + families.length_F[family_N] - 1 - state_N
        return np.where(inside & (left_N >= far_F[family_N]), begin_N, state_N)

    def _cut(
        self,
        starts: NDArray[np.int64],
        width: int,
        far_F: NDArray[np.int64],
        out_F: NDArray[np.bool_] | None = None,
        exact: NDArray[np.int64] | None = None,
    ) -> Window:
        """The states that `starts` lead to, at `width` positions.

        Args:
            far_F: how far a counter must be from its end to take no part.
            out_F: which counters take no part though they may meet their end; `exact` are the starts with them.
        """
        state_S = frontier = np.unique(starts)
        parts = []
        most = self._longest_counts(out_F)
        for _ in range(width):
            source, target, kind, moves = self._pairs_from(frontier)
            reached, target = target, self._level(target, far_F)
            if most is not None:
                kept = self._within(target, starts, most)
                source, target, kind, moves, reached = (x[kept] for x in (source, target, kind, moves, reached))
            parts.append((source, target, kind, moves, reached - target))
            follow = np.unique(target)
            place = np.searchsorted(state_S, follow)
            fresh = state_S[place.clip(max=len(state_S) - 1)] != follow
            frontier = follow[fresh]
            if not len(frontier):
                break
            state_S = np.insert(state_S, place[fresh], frontier)
        source, target, kind, moves, count = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        source_P, target_P = np.searchsorted(state_S, source), np.searchsorted(state_S, target)
        order = np.lexsort((kind, target_P, source_P))
        set_L, set_P = np.unique(kind[order], return_inverse=True)
        stays = None
        if out_F is not None and exact is not None:
            family_S = np.searchsorted(self._families.begin_F, state_S, side="right") - 1
            family_S = np.where((family_S >= 0) & out_F[family_S.clip(min=0)], family_S, -1)
            counted_S = np.zeros(len(state_S), dtype=np.int64)
            np.maximum.at(counted_S, np.searchsorted(state_S, starts), exact - starts)
            stays = Stays.build(
                self._counters, family_S, (source_P[order], target_P[order], set_P), moves[order] > 0, count[order],
                counted_S,
            )  # fmt: skip
        return Window(self.automaton, state_S, source_P[order], target_P[order], set_P, set_L, False, stays)

    def _longest_counts(self, out_F: NDArray[np.bool_] | None) -> int | None:
        """How far a counter may go on one canvas so that its states fit in a window; None where all do."""
        families = self._families
        free = MAX_STATES - int(families.begin_F[0])
        length_F = families.length_F if out_F is None else families.length_F[~out_F]
        if int(length_F.sum()) <= free:
            return None
        return max(16, free // len(length_F))

    def _within(self, target_N: NDArray[np.int64], starts: NDArray[np.int64], most: int) -> NDArray[np.bool_]:
        """Which states lie no further than `most` counts behind where the canvas, or their family, begins."""
        families = self._families
        family_N = np.searchsorted(families.begin_F, target_N, side="right") - 1
        begin_N = families.begin_F[family_N.clip(min=0)]
        near_N: NDArray[np.bool_] = (family_N < 0) | (target_N - begin_N <= most)
        for start in starts.tolist():
            # What shares a counter with the start has its count.
            (place,) = np.searchsorted(families.begin_F, [start], side="right") - 1
            if place >= 0:
                ahead = target_N - begin_N - (start - families.begin_F[place])
                near_N |= (ahead >= 0) & (ahead <= most)
        return near_N

    def _pairs_from(self, state_N: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
        """Source, target and set of all pairs that begin in one of `state_N`, and whether each goes on counting."""
        row_N, offset_N = self._families.rows(state_N)
        counts = self._begins[row_N + 1] - self._begins[row_N]
        places = np.repeat(self._begins[row_N] - counts.cumsum() + counts, counts) + np.arange(counts.sum())
        target = self.target[places] + self.moves[places] * np.repeat(offset_N, counts)
        return np.repeat(state_N, counts), target, self.set[places], self.moves[places]
