"""Defines a nondeterministic automaton over bytes while it is put together, with counters.

A counted repetition is a *region* of states that share one counter: its body stands there once, and steps without a
byte enter the region (the counter is 0), count, go on or leave while the counter is within bounds. States of no
region are in region 0. Regions do not nest. What is built while `inside` a region belongs to it. Several regions may
be gone through at once, as those of two branches of `anyOf`, while their counters are equal.
"""

from collections.abc import Iterable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from gesso.constraints import budget, charset
from gesso.constraints.blocks import Block, Blocks
from gesso.constraints.expression import Anchor, Chars, Expression, Multiples, Text
from gesso.constraints.placeholders import encode
from gesso.constraints.regions import (
    COUNT,
    ENTER,
    LEAVE,
    NO_COUNT,
    WHILE,
    AmbiguousCountError,
    Closed,
    Region,
    SharedCountError,
)
from gesso.errors import OptionError

MAX_GRAPH = 400_000
"""States."""
_COUNTING = -1
"""No region: where a counter's step is."""


class Graph:
    """States with edges for ranges of bytes, free steps, free steps at the begin or end of the text only, and a
    counter's steps."""

    def __init__(self) -> None:
        self.edges: list[list[tuple[int, int, int]] | None] = []
        """Edges of each state: first and last byte, the next state; None of a block's, which has them itself."""
        self.blocks = Blocks()
        self.free: list[list[int]] = []
        self.free_at: dict[bool, dict[int, list[int]]] = {False: {}, True: {}}
        """Keyed by whether it is at the end, else at the begin, then by state."""
        self.steps: dict[int, list[tuple[int, int, int, int]]] = {}
        """A counter's, of each state: kind, the state that follows, least and greatest count."""
        self.region: list[int] = []
        self.regions: list[Region] = [Region(0, 0, 1)]
        self.inside = 0
        self._closed: dict[int, tuple[frozenset[int], int]] = {}

    def add(self) -> int:
        """Returns a new state.

        Raises:
            OptionError: there are too many.
        """
        if not len(self.edges) % 1024:
            self._check(len(self.edges))
        self.edges.append([])
        self.free.append([])
        self.region.append(self.inside)
        return len(self.edges) - 1

    def _check(self, states: int) -> None:
        if states >= MAX_GRAPH:
            raise OptionError(f"the constraint is too large: spelled out it has more than {MAX_GRAPH} parts")
        budget.current().check()

    def edge(self, source: int, low: int, high: int, target: int) -> None:
        """Adds an edge for the bytes from `low` to `high`."""
        edges = self.edges[source]
        assert edges is not None
        edges.append((low, high, target))

    def add_block(
        self,
        next_SG: NDArray[np.int32],
        group_B: NDArray[np.int64],
        accepting_S: NDArray[np.bool_],
        start: int,
        source: int,
    ) -> int:
        """Puts a deterministic automaton behind `source`; returns the state behind it.

        Raises:
            OptionError: there are too many states.
        """
        assert not self.inside
        end, first = self.add(), len(self.edges)
        block = Block(first, start, next_SG, group_B, accepting_S)
        self._check(first + block.states)
        final_S = block.final_S.tolist()
        self.edges += [[] if final else None for final in final_S]
        # Nothing is ever linked to a block's states from here on: they may share their lists.
        nowhere: list[int] = []
        behind = [end]
        self.free += [behind if accepting else nowhere for accepting in accepting_S.tolist()]
        self.region += [0] * block.states
        self.blocks.add(block)
        self.link(source, first + start)
        return end

    def link(self, source: int, target: int) -> None:
        """Returns a free step; not from region to region."""
        self.free[source].append(target)

    def step(self, source: int) -> int:
        """Returns a new state, one free step behind `source`."""
        target = self.add()
        self.link(source, target)
        return target

    def merge(self, sources: Iterable[int]) -> int:
        """Returns a new state that all of `sources` lead to."""
        target = self.add()
        for source in sources:
            self.link(source, target)
        return target

    def add_region(self, key: int, most: int, least_bytes: int) -> int:
        """Returns a new counter."""
        self.regions.append(Region(key, most, least_bytes))
        return len(self.regions) - 1

    def count(self, kind: int, source: int, target: int, low: int = 0, high: int = 0) -> None:
        """Returns a counter's step."""
        self.steps.setdefault(source, []).append((kind, target, low, high))
        if kind in (WHILE, LEAVE):
            region = self.regions[self.region[source]]
            region.open_from(start for start in (low, high + 1) if 0 < start <= region.most)

    def add_text(self, text: str, source: int) -> int:
        """Puts a text behind `source`; returns the state behind it."""
        letters = encode(text)
        if not letters:
            return source
        first = len(self.edges)
        behind = first + len(letters)
        if (rounded := (behind - 1) // 1024 * 1024) >= first:
            self._check(rounded)
        self.edge(source, letters[0], letters[0], first)
        self.edges += [[(byte, byte, first + place)] for place, byte in enumerate(letters[1:], 1)]
        self.edges.append([])
        self.free += [[] for _ in letters]
        self.region += [self.inside] * len(letters)
        return behind - 1

    def add_leaf(self, expression: Expression, source: int) -> int:
        """Puts an expression without parts behind `source`; returns the state behind it."""
        match expression:
            case Text(text):
                return self.add_text(text, source)
            case Chars(chars):
                return self._add_chars(chars, source)
            case Anchor(at_end):
                target = self.add()
                self.free_at[at_end].setdefault(source, []).append(target)
                return target
            case Multiples(divisor, point):
                return self._add_multiples(divisor, point, source)
        raise AssertionError(expression)

    def _add_chars(self, chars: charset.CharSet, source: int) -> int:
        target = self.add()
        tails: dict[tuple[charset.ByteRange, ...], int] = {(): target}
        for spelling in _spellings(chars):
            for place in range(len(spelling) - 1, 0, -1):
                if spelling[place:] not in tails:
                    tails[spelling[place:]] = state = self.add()
                    self.edge(state, *spelling[place], tails[spelling[place + 1 :]])
            self.edge(source, *spelling[0], tails[spelling[1:]])
        return target

    def _add_multiples(self, divisor: int, point: bool, source: int) -> int:
        rests = [self.add() for _ in range(divisor)]
        if point:
            for state in rests:
                self.edge(state, ord("."), ord("."), state)
        for digit in range(10):
            byte = ord("0") + digit
            self.edge(source, byte, byte, rests[digit % divisor])
            for rest, state in enumerate(rests):
                self.edge(state, byte, byte, rests[(10 * rest + digit) % divisor])
        return self.step(rests[0])

    def closure(
        self, states: Iterable[int], count: int = NO_COUNT, at_begin: bool = False, at_end: bool = False
    ) -> Closed:
        """Returns all states that steps without a byte lead to from `states`.

        Args:
            count: the counter of those of `states` that are in a region.

        Raises:
            AmbiguousCountError: not all states of regions agree on it.
        """
        if not (at_begin or at_end):
            (found, region), *others = [self._closed.get(state) or self._close(state) for state in states]
            if region != _COUNTING and all(other == region for _, other in others):
                found = found.union(*(more for more, _ in others)) if others else found
                return Closed(found, (region,), count) if region else Closed(found)
        extra = [self.free_at[kind] for kind, applies in ((False, at_begin), (True, at_end)) if applies]
        seen: dict[int, tuple[int, bool]] = {}
        waiting = [(state, count if self.region[state] else NO_COUNT, False) for state in states]
        while waiting:
            state, at, entered = waiting.pop()
            if (before := seen.get(state)) is not None:
                if before != (at, entered):
                    raise AmbiguousCountError({self.regions[self.region[state]].key})
                continue
            seen[state] = at, entered
            waiting += [(target, at, entered) for target in self.free[state]]
            for free in extra:
                waiting += [(target, at, entered) for target in free.get(state, ())]
            for kind, target, low, high in self.steps.get(state, ()):
                if kind == ENTER:
                    waiting.append((target, 0, True))
                elif kind == COUNT:
                    waiting.append((target, at + 1, entered))
                elif low <= at <= high:
                    waiting.append((target, at, entered) if kind == WHILE else (target, NO_COUNT, False))
        counting = any(self.region[state] or state in self.steps for state in seen)
        kept = frozenset(filter(self._says, seen) if counting else seen)
        regions = tuple(sorted({self.region[state] for state in kept} - {0}))
        counted = {seen[state] for state in kept if self.region[state]}
        if len(counted) > 1:
            raise AmbiguousCountError({self.regions[region].key for region in regions})
        return Closed(kept, regions, *counted.pop()) if counted else Closed(kept)

    def interval(self, regions: tuple[int, ...], count: int) -> tuple[int, int]:
        """Returns the first and last of the counts around `count` for which the same steps are open in all of
        `regions`.

        Raises:
            SharedCountError: they have not been together before.
        """
        together = [self.regions[region] for region in regions]
        if len(together) == 1:
            return together[0].interval(count)
        starts = {start for region in together for start in (*region.starts, region.most + 1)}
        for region in together:
            if not starts <= {*region.starts, region.most + 1} | {s for s in starts if s > region.most}:
                for other in together:
                    other.open_from(start for start in starts if start <= other.most)
                raise SharedCountError
        bounds = [region.interval(count) for region in together]
        return max(low for low, _ in bounds), min(high for _, high in bounds)

    def ends_in(self, state: int) -> bool:
        """Tells whether no step without a byte leads on from a state, and it is in no region."""
        return not self.free[state] and not self.region[state] and state not in self.steps

    def _says(self, state: int) -> bool:
        """Whether a state is more than a way to others."""
        leads = bool(self.free[state]) or state in self.steps
        return self.edges[state] != [] or not leads or state in self.free_at[True]

    def _close(self, state: int) -> tuple[frozenset[int], int]:
        """What free steps lead to, and the region that all of it is in; `_COUNTING` where a counter's step is met."""
        if state not in self._closed:
            found, left = {state}, [state]
            while left:
                for target in self.free[left.pop()]:
                    if target not in found:
                        found.add(target)
                        left.append(target)
            regions = {_COUNTING if s in self.steps else self.region[s] for s in found}
            region = regions.pop() if len(regions) == 1 else _COUNTING
            self._closed[state] = frozenset(filter(self._says, found)), region
        return self._closed[state]


@lru_cache(maxsize=512)
def _spellings(chars: charset.CharSet) -> tuple[tuple[charset.ByteRange, ...], ...]:
    return tuple(charset.utf8(chars))
