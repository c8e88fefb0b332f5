"""The states that matter to one canvas.

Without counters that is the whole automaton, made ready once. With them it is cut out for each canvas: what can be
reached from where the canvas starts within as many tokens as it has. A counter that cannot meet its end on this canvas
takes no part, for all its values so far from the end are followed by the same: they stand here as one.

    S states of the window   R rows of the automaton   K classes of tokens
    P pairs of a state and one that follows it   L distinct sets of classes between such pairs
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from gesso.constraints.automaton import REFUSED, Families, TokenAutomaton
from gesso.constraints.scan import FloatArray, Scan
from gesso.constraints.segments import Segments

MAX_STATES = 60_000
"""Of a window. Where more could be reached, counters go no further on one canvas than this leaves room for."""


@dataclass(frozen=True, eq=False)
class Window:
    """States of an automaton, numbered anew in their order, and the pairs of them."""

    automaton: TokenAutomaton
    state_S: NDArray[np.int64]
    source_P: NDArray[np.int64]
    target_P: NDArray[np.int64]
    set_P: NDArray[np.int64]
    """Among the sets of this window."""
    set_L: NDArray[np.int64]
    """Of all sets of the automaton, those between pairs of the window."""
    whole: bool
    """Whether it is all of the automaton."""

    @cached_property
    def scan(self) -> Scan:
        return Scan(self.source_P, self.target_P, self.set_P, len(self.state_S))

    @cached_property
    def pairs_of_set(self) -> Segments:
        return Segments(self.set_P, len(self.set_L), torch.device("cpu"))

    def prepare(self) -> None:
        """Make what else is made when it is first asked for."""
        _ = self.scan, self.pairs_of_set

    def first(self, starts: list[int]) -> FloatArray:
        """[S] log weights of where a canvas starts."""
        first_S = np.full(len(self.state_S), -math.inf)
        first_S[starts] = 0.0
        return first_S

    def last(self, budget: int | None) -> FloatArray:
        """[S] log weights of where it may end, when `budget` tokens may follow."""
        if budget is None:
            return np.zeros(len(self.state_S))
        return np.where(self.automaton.distances(self.state_S) <= budget, 0.0, -math.inf)


class Windows:
    """The pairs of an automaton, and the windows on it."""

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
        self._kept: dict[tuple[tuple[int, ...], int], Window] = {}
        if families is not None:
            self._families = families
            self._longest_step = self._count_steps(families)

    @cached_property
    def whole(self) -> Window:
        """All states."""
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
        """The window for a canvas of `width` tokens, and the states it starts from, as the window numbers them."""
        if self.automaton.families is None:
            return self.whole, starts
        far = self._longest_step * width + 1
        first = self._level(np.array(starts), far)
        key = tuple(first.tolist()), width
        if (window := self._kept.get(key)) is None:
            window = self._cut(first, width, far)
            # That of the canvas that is being denoised, of a few requests.
            if len(self._kept) >= 4:
                self._kept.pop(next(iter(self._kept)))
            self._kept[key] = window
        return window, np.searchsorted(window.state_S, first).tolist()

    def _count_steps(self, families: Families) -> int:
        """How many times a token counts at most."""
        of_family = np.asarray(np.searchsorted(families.row_F, self.row, side="right")) - 1
        inside = (self.moves > 0) & (of_family >= 0)
        target = self.target[inside]
        target_family = np.searchsorted(families.begin_F, target, side="right") - 1
        here = self.row[inside] - families.row_F[of_family[inside]]
        return int((target - families.begin_F[target_family] - here).max(initial=0))

    def _level(self, state_N: NDArray[np.int64], far: int) -> NDArray[np.int64]:
        """States, those whose counter is at least `far` from its end replaced by the first of their family."""
        families = self._families
        family_N = np.searchsorted(families.begin_F, state_N, side="right") - 1
        inside = family_N >= 0
        family_N = family_N.clip(min=0)
        begin_N = families.begin_F[family_N]
        left_N = begin_N + families.length_F[family_N] - 1 - state_N
        return np.where(inside & (left_N >= far), begin_N, state_N)

    def _cut(self, starts: NDArray[np.int64], width: int, far: int) -> Window:
        seen_S = np.zeros(self.automaton.states, dtype=np.bool_)
        frontier = np.unique(starts)
        seen_S[frontier] = True
        parts = []
        most = self._longest_counts()
        for _ in range(width):
            source, target, kind = self._pairs_from(frontier)
            target = self._level(target, far)
            if most is not None:
                kept = self._within(target, starts, most)
                source, target, kind = source[kept], target[kept], kind[kept]
            parts.append((source, target, kind))
            frontier = np.unique(target[~seen_S[target]])
            if not len(frontier):
                break
            seen_S[frontier] = True
        source, target, kind = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        state_S = np.flatnonzero(seen_S)
        place_S = seen_S.cumsum() - 1
        source_P, target_P = place_S[source], place_S[target]
        order = np.lexsort((kind, target_P, source_P))
        set_L, set_P = np.unique(kind[order], return_inverse=True)
        return Window(self.automaton, state_S, source_P[order], target_P[order], set_P, set_L, False)

    def _longest_counts(self) -> int | None:
        """How far a counter may go on one canvas so that its states fit in a window; None where all do."""
        families = self._families
        free = MAX_STATES - int(families.begin_F[0])
        if int(families.length_F.sum()) <= free:
            return None
        return max(16, free // len(families.length_F))

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

    def _pairs_from(self, state_N: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Source, target and set of all pairs that begin in one of `state_N`."""
        row_N, offset_N = self._families.rows(state_N)
        counts = self._begins[row_N + 1] - self._begins[row_N]
        places = np.repeat(self._begins[row_N] - counts.cumsum() + counts, counts) + np.arange(counts.sum())
        target = self.target[places] + self.moves[places] * np.repeat(offset_N, counts)
        return np.repeat(state_N, counts), target, self.set[places]
