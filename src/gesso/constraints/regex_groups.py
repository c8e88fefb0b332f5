r"""Takes groups apart that hold an assertion: a word boundary or a look-ahead.

An assertion speaks of all that stands before and behind it, which inside of a group nobody knows. So such a group is
multiplied out, once, where it stands in an alternative of the whole pattern: `x(?:\by|z)w` is `x\byw|xzw`, and
`x(?:\by)?` is `x|x\by`. What matches is the same, and no assertion is in a group any more. A group that may be repeated
often, that has flags of its own, or that would be multiplied out to too much stays as it is.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

MAX_TURNS = 4
"""Turns of a repeated group that is written out, at most."""
MAX_CHARACTERS = 2_000
"""Characters at most of a pattern that groups were taken out of."""
_ASSERTIONS = ("\\b", "\\B", "(?=", "(?!")
_OPENING = re.compile(r"\((?:\?:|\?(P?)<([^>=!]*)>|(?!\?))")
_FLAGS = re.compile(r"\(\?[is]+\)")
_COUNT = re.compile(r"(?:\?|\{(\d{1,9})(?:,(\d{1,9}))?\})\??")
_QUANTIFIER = ("*", "+", "?", "{")


@dataclass(frozen=True, slots=True)
class Ungrouped:
    """Holds a pattern whose assertions are outside of groups, as far as that can be had."""

    text: str
    places: tuple[int, ...]
    """Where each character, and the end, stands in the pattern as it was given."""


@dataclass(slots=True)
class _Group:
    begin: int
    end: int = 0
    bars: list[int] = field(default_factory=list)
    """Places of the bars between its alternatives."""
    holds: bool = False
    """Whether an assertion is in it."""


def ungrouped(pattern: str, ecma: bool) -> Ungrouped:
    """Takes the groups of a pattern apart that hold an assertion.

    Args:
        pattern: any text; one that is malformed stays so.
        ecma: whether it is of ECMAScript's dialect, which has no flags at the beginning.
    """
    text, places = pattern, (*range(len(pattern)), len(pattern))
    head = 0 if ecma or (flags := _FLAGS.match(pattern)) is None else flags.end()
    while any(mark in text for mark in _ASSERTIONS):
        for group, begin, end in _of_alternatives(text, head):
            if (parts := _written_out(text, group, end, ecma)) is None:
                continue
            ways = [[*range(begin, group.begin), *way, *range(group.end, end)] for way in parts]
            if sum(map(len, ways)) + len(text) > MAX_CHARACTERS:
                continue
            # A bar stands where the group began.
            middle = [at for number, way in enumerate(ways) for at in ([-1] if number else []) + way]
            order = [*range(begin), *middle, *range(end, len(text))]
            where = places[group.begin]
            places = (*(where if at < 0 else places[at] for at in order), len(pattern))
            text = "".join("|" if at < 0 else text[at] for at in order)
            break
        else:
            break
    return Ungrouped(text, places)


def _of_alternatives(text: str, head: int) -> Iterator[tuple[_Group, int, int]]:
    """The groups that hold an assertion and are in no other, each with where its alternative begins and ends."""
    bars, found = [head - 1], []
    open_groups: list[_Group] = []
    at = head
    while at < len(text):
        if text.startswith(_ASSERTIONS, at):
            for group in open_groups:
                group.holds = True
        c = text[at]
        if c == "\\":
            at += 1
        elif c == "[":
            at = _behind_class(text, at) - 1
        elif c == "(":
            open_groups.append(_Group(at))
        elif c == "|":
            (open_groups[-1].bars if open_groups else bars).append(at)
        elif c == ")":
            if not open_groups:
                return
            group = open_groups.pop()
            group.end = at + 1
            if not open_groups and group.holds:
                found.append(group)
        at += 1
    if open_groups:
        return
    bars.append(len(text))
    for group in found:
        end = next(bar for bar in bars if bar >= group.end)
        yield group, bars[bars.index(end) - 1] + 1, end


def closing(text: str, at: int) -> int | None:
    """Returns where the group that begins at `at` is closed; None where it is not."""
    depth = 0
    while at < len(text):
        c = text[at]
        if c == "[":
            at = _behind_class(text, at)
            continue
        depth += (c == "(") - (c == ")")
        if c == ")" and not depth:
            return at
        at += 1 + (c == "\\")
    return None


def _behind_class(text: str, at: int) -> int:
    """Where a class in brackets ends."""
    at += 1
    at += text.startswith("^", at)
    at += text.startswith("]", at)  # stands for itself, or the pattern is refused
    while at < len(text) and text[at] != "]":
        at += 1 + (text[at] == "\\")
    return at + 1


def _written_out(text: str, group: _Group, end: int, ecma: bool) -> list[list[int]] | None:
    """The ways through a group, as the places of their characters; it ends behind its quantifier then. None where it
    cannot be written out, or a way would be another one behind what stands before it."""
    opening = _OPENING.match(text, group.begin)
    if opening is None or (opening[1] and ecma) or not (opening[2] is None or opening[2].isidentifier()):
        return None
    inside, closing = opening.end(), group.end - 1
    bounds = _COUNT.match(text, group.end, end)
    behind = group.end if bounds is None else bounds.end()
    if text.startswith(_QUANTIFIER, behind):
        return None
    if bounds is None:
        borders = [inside - 1, *group.bars, closing]
        ways = [list(range(one + 1, other)) for one, other in pairwise(borders)]
        return None if any(text.startswith(_QUANTIFIER, way[0]) for way in ways if way) else ways
    counted = bounds[1] is not None
    least = int(bounds[1]) if counted else 0
    most = int(bounds[2]) if counted and bounds[2] is not None else least if counted else 1
    if not max(least, 1) <= most <= MAX_TURNS:
        return None
    turn = list(range(group.begin, group.end))
    group.end = behind
    return [turn * times for times in range(least, most + 1)]
