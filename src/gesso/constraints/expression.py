"""Defines regular languages of texts, as trees.

What a regular expression can say, and six things that it cannot: `Intersection`, `Difference`, `Joined` (optional
parts with separators between those that are there), `Multiples` (numbers that a number divides), `Fitting` (as much of
a language as there is room for) and `Distinct` (arrays of different items).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from gesso.constraints.charset import CharSet
from gesso.constraints.placeholders import has_half_characters
from gesso.errors import OptionError


@dataclass(frozen=True, slots=True)
class _Hashed:
    """Keeps the hash of a tree: each part is asked for its own at every level above it."""

    _hash: int = field(default=0, init=False, repr=False, compare=False)

    def __init_subclass__(cls) -> None:
        # `dataclass` gives a class that does not define this method itself a new one.
        cls.__hash__ = _Hashed.__hash__  # type: ignore[method-assign]

    def __hash__(self) -> int:
        if not (found := self._hash):
            names: tuple[str, ...] = self.__match_args__
            found = hash((type(self).__name__, *(getattr(self, name) for name in names))) or 1
            object.__setattr__(self, "_hash", found)
        return found


@dataclass(frozen=True, slots=True)
class Chars:
    """Stands for one character of a set; the empty set is the empty language."""

    chars: CharSet


@dataclass(frozen=True, slots=True)
class Text:
    """Stands for exactly this text; the empty one too."""

    text: str


@dataclass(frozen=True, slots=True)
class Anchor:
    """Stands for nothing, at the start or else at the end of the text of the next `Whole` around it."""

    at_end: bool


@dataclass(frozen=True, slots=True)
class Sequence(_Hashed):
    """Stands for one part after the other."""

    parts: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class Union(_Hashed):
    """Stands for any of the options; of none, the empty language."""

    options: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class Repeat(_Hashed):
    """Repeats the body between `least` and `most` times, the separator in between; without end where `most` is None."""

    body: "Expression"
    least: int = 0
    most: int | None = None
    separator: str = ""


@dataclass(frozen=True, slots=True)
class Joined(_Hashed):
    """Stands for the items in order, separated; an item that is not required may be missing, with its separator."""

    items: tuple[tuple["Expression", bool], ...]
    """Each with whether it is required."""
    separator: str
    rest: "Expression | None" = None
    """What may follow behind the items, any number of times."""
    least: int = 0
    """Items that are there at least; of `rest`, which may repeat itself, one counts."""
    most: int | None = None
    """Items that are there at most, `rest` among them."""


@dataclass(frozen=True, slots=True)
class Intersection(_Hashed):
    """Stands for what all parts have in common; each is a text of its own to its anchors."""

    parts: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class Difference(_Hashed):
    """Stands for the texts of the body that are none of what is removed; each is a text of its own to its anchors."""

    body: "Expression"
    removed: "Expression"


@dataclass(frozen=True, slots=True)
class Whole(_Hashed):
    """Stands for the body, whose anchors refer to the ends of this and not of what is around it."""

    body: "Expression"


@dataclass(frozen=True, slots=True)
class Multiples:
    """Stands for runs of decimal digits, leading zeros included, whose value `divisor` divides."""

    divisor: int
    point: bool = False
    """Whether points may stand anywhere behind the first digit and count for nothing."""


@dataclass(frozen=True, slots=True)
class Fitting(_Hashed):
    """Stands for the first of the options, of which each holds the next, whose automaton is not too large."""

    options: tuple["Expression", ...]
    most_states: int
    """States that the automaton of an option may have that is not the last."""


@dataclass(frozen=True, slots=True)
class Distinct(_Hashed):
    """Stands for JSON arrays of items that differ, as far as that is found out (see `distinct_items`)."""

    item: "Expression"
    before: str
    """What an object among the items begins with, up to the value that tells it from others; empty where none does."""
    separator: str
    least: int = 0
    most: int | None = None
    max_states: int = 1
    """States of its automaton at most; fewer items, or fewer that are told apart, where there is no room for more."""
    quote: str = '"'
    """Around a string, of one byte; inside of it there are escapes where it is JSON's."""


Expression = (
    Chars | Text | Anchor | Sequence | Union | Repeat | Joined | Intersection | Difference | Whole | Multiples
    | Fitting | Distinct
)  # fmt: skip

NEVER: Expression = Union(())
"""No text at all."""
EMPTY: Expression = Text("")
"""The empty text."""


def sequence(*parts: Expression) -> Expression:
    """Puts expressions one after the other; nothing where a part is `NEVER`."""
    if NEVER in parts:
        return NEVER
    return parts[0] if len(parts) == 1 else Sequence(parts)


def union(options: Iterable[Expression]) -> Expression:
    """Returns the union of the options; those that are `NEVER` are dropped."""
    kept = tuple(dict.fromkeys(option for option in options if option != NEVER))
    return kept[0] if len(kept) == 1 else Union(kept)


def repeat(body: Expression, least: int = 0, most: int | None = None, separator: str = "") -> Expression:
    """Repeats a body between `least` and `most` times; one that is `NEVER` can only be left out."""
    if body == NEVER or most == 0:
        return NEVER if least else EMPTY
    return Repeat(body, least, most, separator)


def intersection(*parts: Expression) -> Expression:
    """Returns the texts that all have in common."""
    if NEVER in parts:
        return NEVER
    kept = tuple(dict.fromkeys(parts))
    return kept[0] if len(kept) == 1 else Intersection(kept)


def difference(body: Expression, removed: Expression) -> Expression:
    """Returns the body without the texts of `removed`."""
    return body if NEVER in (removed, body) else Difference(body, removed)


def choices(options: Iterable[str]) -> Expression:
    """Returns the union of the texts.

    Raises:
        OptionError: one holds half a character.
    """
    texts = list(options)
    for text in texts:
        if has_half_characters(text):
            raise OptionError(f"{text!r:.60} holds half a character (a surrogate)")
    return union(map(Text, texts))
