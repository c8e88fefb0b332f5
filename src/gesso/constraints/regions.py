"""Defines the regions of a nondeterministic automaton: the states that share one counter, and what may go wrong."""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field

ENTER, COUNT, WHILE, LEAVE = range(4)
"""Kinds of a counter's steps: set it to 0; add 1; go on, or leave the region, while it is within bounds."""
NO_COUNT = -1


@dataclass(slots=True)
class Region:
    """Holds the states of one counter."""

    key: int
    """What it was built for, to spell that out where the counter turns out to be ambiguous."""
    most: int
    """The greatest count."""
    least_bytes: int
    """Bytes of the text between two counts, at least."""
    starts: set[int] = field(default_factory=lambda: {0})
    """Counts from which on other steps are open than just below."""
    _sorted: list[int] = field(default_factory=list)

    def open_from(self, starts: Iterable[int]) -> None:
        """Adds counts from which on other steps are open."""
        self.starts.update(starts)
        self._sorted = []

    def interval(self, count: int) -> tuple[int, int]:
        """Returns the first and last of the counts around `count` for which the same steps are open."""
        self._sorted = self._sorted or sorted(self.starts)
        place = bisect_right(self._sorted, count)
        last = self._sorted[place] - 1 if place < len(self._sorted) else self.most
        return self._sorted[place - 1], min(self.most, last)


class SharedCountError(Exception):
    """Says that two regions share a count from here on, and so the counts at which their steps change: all is to be
    done anew."""


class AmbiguousCountError(Exception):
    """Says that two counts are possible after one text, so that a counter cannot tell them: their regions must be
    spelled out."""

    def __init__(self, keys: set[int]) -> None:
        super().__init__(keys)
        self.keys = keys


@dataclass(frozen=True, slots=True)
class Closed:
    """States after a text, and the counter of those that are in a region."""

    states: frozenset[int]
    regions: tuple[int, ...] = ()
    count: int = NO_COUNT
    entered: bool = False
    """Whether the region was entered just now."""
