"""Selects which part of a text is meant, and what of it a model is shown.

A selection cuts a text into what stands before it, the part itself and what stands after: put together they are the
text, character for character. A `Passage` is such a part as a model sees it: without the white lines around it, its
margin and its kind of line end, which all come back around the answer.
"""

import re
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from gesso.errors import OptionError
from gesso.options import Integer, Text
from gesso.options.user_code import failures_of

_LINE_END = re.compile(r"\r\n|\n|\r")
_LINES = re.compile(r"\s*([0-9]{1,9})\s*(?:-\s*([0-9]{1,9})\s*)?")
_WHITE_LINES = r"(?:[^\S\r\n]*(?:\r\n|\n|\r))*"
BYTE_ORDER_MARK = "\ufeff"


class Parts(NamedTuple):
    """Holds a text in three parts: joined, they are the text."""

    before: str
    selected: str
    after: str


class Selection(Protocol):
    """Says which part of a text is meant."""

    def of(self, text: str) -> Parts:
        """Cuts a text.

        Raises:
            OptionError: the text has no such part.
        """


@dataclass(frozen=True, slots=True)
class Everything:
    """Selects the whole text."""

    def of(self, text: str) -> Parts:
        return Parts("", text, "")


@dataclass(frozen=True, slots=True)
class Lines:
    """Selects lines `first` to `last`, counted from 1, both included, without the end of the last one.

    A line ends with LF, CRLF or CR; the end of the text ends a line too, unless there is nothing left for it.
    """

    first: int
    last: int

    def __post_init__(self) -> None:
        for number in (self.first, self.last):
            Integer().check("lines", number)
        if self.first < 1:
            raise OptionError(f"lines are counted from 1, got {self.first}", option="lines")
        if self.last < self.first:
            raise OptionError(f"lines must be in order, got {self.first}-{self.last}", option="lines")

    @classmethod
    def parse(cls, written: str) -> "Lines":
        """Reads the lines that `10-24` means, or `10`, which is one line.

        Raises:
            OptionError: it means none.
        """
        found = _LINES.fullmatch(written)
        if found is None:
            raise OptionError(
                f"lines must be a line such as 10 or a range such as 10-24, got {written!r}", option="lines"
            )
        return cls(int(found[1]), int(found[2] or found[1]))

    def of(self, text: str) -> Parts:
        ends = [found.span() for found in _LINE_END.finditer(text)]
        if (ends[-1][1] if ends else 0) < len(text):
            ends.append((len(text), len(text)))
        if self.last > len(ends):
            raise OptionError(f"lines: the text has {len(ends)}, so there is no line {self.last}", option="lines")
        start = ends[self.first - 2][1] if self.first > 1 else 0
        end = ends[self.last - 1][0]
        return Parts(text[:start], text[start:end], text[end:])


MOST_COUNTED = 100
"""Places of a match that are told, where there is more than the one that there must be."""


@dataclass(frozen=True, slots=True)
class Match:
    """Selects the one place where this text stands."""

    text: str

    def __post_init__(self) -> None:
        Text().check("match", self.text)
        if not self.text:
            raise OptionError("match is empty", option="match")

    def of(self, text: str) -> Parts:
        # Places may overlap: `aa` stands in `aaa` twice.
        places, place = list[int](), text.find(self.text)
        while place >= 0 and len(places) < MOST_COUNTED:
            places.append(place)
            place = text.find(self.text, place + 1)
        if len(places) != 1:
            times = f"{len(places)} times{' and more' if place >= 0 else ''}"
            raise OptionError(f"match must occur exactly once in the text, it occurs {times}", option="match")
        return Parts(text[: places[0]], self.text, text[places[0] + len(self.text) :])


def parts_of(selection: Selection, text: str) -> Parts:
    """Cuts a text by a selection, which may be the user's own.

    Raises:
        OptionError: it is none, the text has no such part, it fails, or what it returns is not the text in three parts.
    """
    if not callable(getattr(selection, "of", None)):
        raise OptionError(
            f"selection must be gesso.Lines(2, 3), gesso.Match(...) or alike, got {selection!r:.60}", option="selection"
        )
    with failures_of("selection", "the selection"):
        found: object = selection.of(text)
    parts = tuple(found) if isinstance(found, tuple | list) else ()
    if len(parts) != 3 or not all(isinstance(part, str) for part in parts) or "".join(parts) != text:
        message = (
            f"selection: of(text) must return three texts that are the text when they are joined, got {found!r:.60}"
        )
        raise OptionError(message, option="selection")
    return Parts(*parts)


def selection_of(lines: str | None, match: str | None) -> Selection:
    """Returns the selection that one of them means; without both, everything.

    Raises:
        OptionError: both are given, or one means nothing.
    """
    if lines is not None and match is not None:
        raise OptionError("match and lines contradict each other: give one of them", option="match")
    if lines is not None:
        return Lines.parse(lines)
    return Everything() if match is None else Match(match)


@dataclass(frozen=True, slots=True)
class Passage:
    """Holds what of a selected part is shown, and what is put back: `restore(text)` is the part itself."""

    text: str
    """Its lines end with LF, unless they end in different ways."""
    lead: str
    tail: str
    margin: str
    """White space that all its lines begin with."""
    line_end: str

    @classmethod
    def of(cls, parts: Parts) -> "Passage":
        """Makes the passage of a selection. Its `text` is empty where the selection is white."""
        rest = parts.selected.rstrip()
        tail = parts.selected[len(rest) :]
        found = re.match(f"{BYTE_ORDER_MARK}?{_WHITE_LINES}", rest)
        lead = found[0] if found else ""
        core = rest[len(lead) :]
        end = _LINE_END.search(core) or _LINE_END.search(parts.before) or _LINE_END.search(parts.after)
        line_end = end[0] if end else "\n"
        text = core.replace(line_end, "\n")
        if "\r" in text or text.replace("\n", line_end) != core:
            text, line_end = core, "\n"
        margin = _margin(text)
        return cls(_without(text, margin), lead, tail, margin, line_end)

    def restore(self, answer: str) -> str:
        """Returns the part with `answer` in the place of `text`. White lines around the answer do not count, and its
        lines end as those of the part."""
        if self.line_end != "\n":
            answer = answer.replace("\r\n", "\n").replace(self.line_end, "\n")
        lines = re.sub(rf"\A{_WHITE_LINES}", "", answer.rstrip())
        return self.lead + _with(lines, self.margin).replace("\n", self.line_end) + self.tail


def _margin(text: str) -> str:
    """White space that all lines begin with, but the empty ones; nothing where it would not come back."""
    white = [line[: len(line) - len(line.lstrip())] for line in text.split("\n") if line]
    margin = min(white, key=len, default="")
    return margin if _with(_without(text, margin), margin) == text else ""


def _without(text: str, margin: str) -> str:
    return "\n".join(line.removeprefix(margin) for line in text.split("\n"))


def _with(text: str, margin: str) -> str:
    return "\n".join(margin + line if line else line for line in text.split("\n"))
