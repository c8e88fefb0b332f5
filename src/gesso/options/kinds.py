"""Kinds of options: what a value may be, how it is checked and brought into its frozen form.

A kind knows nothing of command lines or HTTP; those have one function each that reads kinds. `check` returns the value
as the configuration holds it, and refuses what is impossible in words that name the option.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf, isfinite
from operator import index
from typing import Any, NoReturn, Protocol

from gesso.errors import OptionError
from gesso.options.frozen import FrozenDict, freeze


class Kind(Protocol):
    """A type of option."""

    @property
    def label(self) -> str:
        """What the pages call it."""

    @property
    def bounds(self) -> str:
        """What the pages say of its bounds; empty where it has none."""

    def check(self, name: str, value: Any) -> Any:
        """The value in its frozen form.

        Raises:
            OptionError: the value is impossible; the error carries `name`.
        """


def refuse(name: str, rule: str, value: object) -> NoReturn:
    """
    Raises:
        OptionError: always.
    """
    raise OptionError(f"{name} must be {rule}, got {value!r}", option=name)


class _Plain:
    """A kind without parameters: all of one class are equal."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))


@dataclass(frozen=True, slots=True)
class _Bounded:
    minimum: float | None = None
    above: float | None = None
    maximum: float | None = None
    below: float | None = None

    @property
    def bounds(self) -> str:
        """Such as `above 0 and at most 1`."""
        low = None if self.minimum is None else f"at least {self.minimum}"
        low = low if self.above is None else f"above {self.above}"
        high = None if self.maximum is None else f"at most {self.maximum}"
        high = high if self.below is None else f"below {_power(self.below)}"
        return " and ".join(part for part in (low, high) if part)

    def _fits(self, name: str, value: float) -> None:
        """Refuse what is outside; the lower bound of `minimum` is the caller's, who names the type with it."""
        low = self.above is None or value > self.above
        high = (self.maximum is None or value <= self.maximum) and (self.below is None or value < self.below)
        if not (low and high):
            beyond = _Bounded(None, self.above, self.maximum, self.below)
            refuse(name, beyond.bounds, value)


@dataclass(frozen=True, slots=True)
class Integer(_Bounded):
    """A whole number."""

    label = "integer"

    def check(self, name: str, value: Any) -> int:
        least = self.minimum if self.minimum is not None else -inf
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            refuse(name, "an integer" if least == -inf else f"an integer of at least {least}", value)
        self._fits(name, value)
        return value


@dataclass(frozen=True, slots=True)
class Number(_Bounded):
    """A finite number."""

    label = "number"

    def check(self, name: str, value: Any) -> float:
        least = self.above if self.above is not None else self.minimum
        least = -inf if least is None else least
        good = isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
        if not good or value < least:
            refuse(name, "a number" if least == -inf else f"a number of at least {least:g}", value)
        self._fits(name, value)
        return value  # type: ignore[no-any-return]


class Switch(_Plain):
    """True or false."""

    label = "true or false"
    bounds = ""

    def check(self, name: str, value: Any) -> bool:
        if not isinstance(value, bool):
            refuse(name, "true or false", value)
        return value


class Text(_Plain):
    """A string."""

    label = "text"
    bounds = ""

    def check(self, name: str, value: Any) -> str:
        if not isinstance(value, str):
            refuse(name, "a string", value)
        return value


@dataclass(frozen=True, slots=True)
class Choice:
    """One of some words."""

    words: tuple[str, ...]

    @property
    def label(self) -> str:
        return "one of " + ", ".join(self.words) if len(self.words) > 1 else self.words[0]

    bounds = ""

    def check(self, name: str, value: Any) -> str:
        if not isinstance(value, str) or value not in self.words:
            refuse(name, f"one of {', '.join(self.words)}", value)
        return value


@dataclass(frozen=True, slots=True)
class IntegerOrWord:
    """A whole number, or a word in its place."""

    word: str
    what: str
    """What the number counts."""
    minimum: int
    maximum: int

    @property
    def label(self) -> str:
        return f"integer or {self.word}"

    @property
    def bounds(self) -> str:
        return f"at least {self.minimum} and at most {self.maximum}"

    def check(self, name: str, value: Any) -> int | str:
        if isinstance(value, str):
            if value != self.word:
                refuse(name, f"{self.word} or a number of {self.what} up to {self.maximum}", value)
            return value
        return Integer(self.minimum, maximum=self.maximum).check(name, value)


@dataclass(frozen=True, slots=True)
class Texts:
    """Strings, none of them empty."""

    may_be_empty: bool = False
    label = "list of texts"
    bounds = ""

    def check(self, name: str, value: Any) -> tuple[str, ...]:
        texts = _parts(value)
        good = texts is not None and all(isinstance(text, str) and text for text in texts)
        if not good or not (texts or self.may_be_empty):
            refuse(name, "a sequence of strings that are not empty", value)
        return texts or ()


@dataclass(frozen=True, slots=True)
class TokenIds:
    """Token ids."""

    may_be_empty: bool = False
    label = "list of token ids"
    bounds = ""

    def check(self, name: str, value: Any) -> tuple[int, ...]:
        if not self.may_be_empty and _parts(value) == ():
            refuse(name, "a list of token ids, not empty", value)
        return _token_ids(name, value)


class PinnedTokens(_Plain):
    """Token ids by position, None where a position is free."""

    label = "list of token ids and None"
    bounds = ""

    def check(self, name: str, value: Any) -> tuple[int | None, ...]:
        parts = _parts(value)
        if parts == ():
            refuse(name, "a list of token ids and None, not empty", value)
        if parts is None:
            refuse(name, "a sequence of token ids", value)
        ids = iter(_token_ids(name, [part for part in parts if part is not None]))
        return tuple(None if part is None else next(ids) for part in parts)


class TokenSequences(_Plain):
    """Lists of token ids."""

    label = "list of lists of token ids"
    bounds = ""

    def check(self, name: str, value: Any) -> tuple[tuple[int, ...], ...]:
        sequences = _parts(value)
        if sequences is None or any(_parts(sequence) == () for sequence in sequences):
            refuse(name, "a list of lists of token ids, none of them empty", value)
        return tuple(_token_ids(name, sequence) for sequence in sequences)


@dataclass(frozen=True, slots=True)
class BiasMap:
    """Numbers by token id."""

    largest: float
    label = "mapping of token ids to numbers"

    @property
    def bounds(self) -> str:
        return f"numbers of at most {self.largest:g} in size"

    def check(self, name: str, value: Any) -> FrozenDict:
        if not isinstance(value, Mapping) or not all(_is_bias(*item) for item in value.items()):
            refuse(name, "a mapping of token ids to finite numbers", value)
        for token, bias in value.items():
            if abs(bias) > self.largest:
                message = f"{name} of token {token} must be at most {self.largest:g} in size, got {bias}"
                raise OptionError(message, option=name)
        return FrozenDict(value)


class JsonSchema(_Plain):
    """A JSON schema."""

    label = "JSON schema"
    bounds = ""

    def check(self, name: str, value: Any) -> FrozenDict | bool:
        if value is False:
            raise OptionError(f"{name} false allows nothing", option=name)
        if not isinstance(value, Mapping | bool):
            refuse(name, "a schema (a mapping)", value)
        return _frozen(name, value)  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of some whole numbers."""

    numbers: tuple[int, ...]

    @property
    def label(self) -> str:
        return f"one of {', '.join(map(str, self.numbers))}"

    bounds = ""

    def check(self, name: str, value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or value not in self.numbers:
            refuse(name, self.label, value)
        return value


@dataclass(frozen=True, slots=True)
class Files:
    """Files, by their paths on the command line; in Python whatever a reader of such files takes."""

    what: str
    """What they are."""

    @property
    def label(self) -> str:
        return f"list of {self.what}"

    bounds = ""

    def check(self, name: str, value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            refuse(name, f"a list of {self.what}", type(value).__name__)
        return tuple(value)


class Mappings(_Plain):
    """A list of JSON objects."""

    label = "list of mappings"
    bounds = ""

    def check(self, name: str, value: Any) -> tuple[FrozenDict, ...]:
        parts = _parts(value)
        if parts is None or not all(isinstance(part, Mapping) for part in parts):
            refuse(name, "a list of mappings", value)
        return tuple(_frozen(name, part) for part in parts)


@dataclass(frozen=True, slots=True)
class WordOrMapping:
    """A word, or a JSON object. What they mean is checked by who reads them."""

    words: tuple[str, ...]
    what: str
    """What the object is."""

    @property
    def label(self) -> str:
        return f"{', '.join(self.words)} or {self.what}"

    bounds = ""

    def check(self, name: str, value: Any) -> Any:
        if not isinstance(value, Mapping) and value not in self.words:
            refuse(name, f"{', '.join(self.words)} or {self.what}", value)
        return _frozen(name, value)


def _frozen(name: str, value: Any) -> Any:
    try:
        return freeze(value)
    except RecursionError:
        raise OptionError(f"{name} is nested too deeply", option=name) from None


def _power(value: float) -> str:
    exponent = int(value).bit_length() - 1
    return f"2**{exponent}" if value == 2**exponent and exponent > 16 else f"{value}"


def _is_bias(token: object, bias: object) -> bool:
    token_id = isinstance(token, int) and not isinstance(token, bool) and token >= 0
    return token_id and isinstance(bias, int | float) and not isinstance(bias, bool) and isfinite(bias)


def _parts(value: object) -> tuple[Any, ...] | None:
    """The elements of a sequence; None where it is none, a string included."""
    return tuple(value) if isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping) else None


def _token_ids(name: str, value: object) -> tuple[int, ...]:
    parts = _parts(value)
    try:
        ids = tuple(-1 if isinstance(part, bool) else index(part) for part in parts or ())
    except TypeError:
        ids = (-1,)
    if parts is None or min(ids, default=0) < 0:
        refuse(name, "a sequence of token ids", value)
    return ids
