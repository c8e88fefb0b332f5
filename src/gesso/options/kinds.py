"""Defines the kinds of options: which values are valid, how they are checked and brought into their frozen form.

A kind knows nothing of command lines or HTTP; those have one function each that reads kinds. `check` returns the value
as the configuration holds it, and refuses what is impossible in words that name the option. Kinds of sequences and
mappings are in `gesso.options.compound_kinds`.
"""

from dataclasses import dataclass
from math import inf, isfinite
from numbers import Integral, Real
from typing import Any, ClassVar, Generic, NoReturn, Protocol, TypeGuard, TypeVar

from gesso.errors import OptionError

T = TypeVar("T")


class Kind(Protocol):
    """Checks the values of one type of option."""

    @property
    def label(self) -> str:
        """Returns the type's name for the pages."""

    @property
    def bounds(self) -> str:
        """Returns the bounds for the pages; empty where there are none."""

    def check(self, name: str, value: Any) -> Any:
        """Returns the value in its frozen form.

        Raises:
            OptionError: the value is impossible; the error carries `name`.
        """


def refuse(name: str, rule: str, value: object) -> NoReturn:
    """Refuses a value.

    Raises:
        OptionError: always.
    """
    raise OptionError(f"{name} must be {rule}, got {value!r}", option=name)


def is_integer(value: object) -> TypeGuard[int]:
    """Says whether a value is a whole number, NumPy's included, and no boolean."""
    # int first: it is quick to ask, and prompts have many ids.
    return isinstance(value, int | Integral) and not isinstance(value, bool)


def is_number(value: object) -> TypeGuard[float]:
    """Says whether a value is a real number, NumPy's included, and no boolean."""
    return isinstance(value, Real) and not isinstance(value, bool)


class Plain:
    """Compares kinds without parameters: all of one class are equal."""

    __slots__ = ()
    bounds = ""

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
        """Returns the bounds, such as `above 0 and at most 1`."""
        low = None if self.minimum is None else f"at least {self.minimum}"
        low = low if self.above is None else f"above {self.above}"
        high = None if self.maximum is None else f"at most {self.maximum}"
        high = high if self.below is None else f"below {_power(self.below)}"
        return " and ".join(part for part in (low, high) if part)

    def _fits(self, name: str, value: float) -> None:
        """Refuses what is outside; the lower bound of `minimum` is the caller's, who names the type with it."""
        low = self.above is None or value > self.above
        high = (self.maximum is None or value <= self.maximum) and (self.below is None or value < self.below)
        if not (low and high):
            beyond = _Bounded(None, self.above, self.maximum, self.below)
            refuse(name, beyond.bounds, value)


class Integer(_Bounded):
    """Takes a whole number."""

    __slots__ = ()
    label = "integer"

    def check(self, name: str, value: Any) -> int:
        least = self.minimum if self.minimum is not None else -inf
        if not is_integer(value) or value < least:
            refuse(name, "an integer" if least == -inf else f"an integer of at least {least}", value)
        self._fits(name, value)
        return int(value)


class Number(_Bounded):
    """Takes a finite number."""

    __slots__ = ()
    label = "number"

    def check(self, name: str, value: Any) -> float:
        least = self.above if self.above is not None else self.minimum
        least = -inf if least is None else least
        bound = "of at least" if self.above is None else "above"
        rule = "a number" if least == -inf else f"a number {bound} {least:g}"
        if not is_number(value):
            refuse(name, rule, value)
        try:
            number = float(value)
        except OverflowError:  # an integer that no float can hold
            number = inf
        if not isfinite(number):
            refuse(name, "a finite number", value)
        if value < least:
            refuse(name, rule, value)
        self._fits(name, value)
        return number


class _Instance(Plain, Generic[T]):
    """Takes every value of one Python type."""

    __slots__ = ()
    accepted: ClassVar[type[Any]]
    label: ClassVar[str]
    rule: ClassVar[str]

    def check(self, name: str, value: Any) -> T:
        if not isinstance(value, self.accepted):
            refuse(name, self.rule, value)
        return value  # type: ignore[no-any-return]


class Switch(_Instance[bool]):
    """Takes true or false."""

    accepted, label, rule = bool, "true or false", "true or false"


class Text(_Instance[str]):
    """Takes a string."""

    accepted, label, rule = str, "text", "a string"


@dataclass(frozen=True, slots=True)
class Choice:
    """Takes one of some words."""

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
class OneOf:
    """Takes one of some whole numbers."""

    numbers: tuple[int, ...]

    @property
    def label(self) -> str:
        return f"one of {', '.join(map(str, self.numbers))}"

    bounds = ""

    def check(self, name: str, value: Any) -> int:
        if not is_integer(value) or value not in self.numbers:
            refuse(name, self.label, value)
        return int(value)


@dataclass(frozen=True, slots=True)
class IntegerOrWord:
    """Takes a whole number, or one of some words in its place."""

    words: tuple[str, ...]
    what: str
    """What the number counts."""
    minimum: int
    maximum: int

    @property
    def label(self) -> str:
        return f"integer, {' or '.join(self.words)}"

    @property
    def bounds(self) -> str:
        return f"at least {self.minimum} and at most {self.maximum}"

    def check(self, name: str, value: Any) -> int | str:
        if isinstance(value, str):
            if value not in self.words:
                refuse(name, f"{', '.join(self.words)} or a number of {self.what} up to {self.maximum}", value)
            return value
        return Integer(self.minimum, maximum=self.maximum).check(name, value)


def _power(value: float) -> str:
    exponent = int(value).bit_length() - 1
    return f"2**{exponent}" if value == 2**exponent and exponent > 16 else f"{value}"


@dataclass(frozen=True, slots=True)
class Instance:
    """Takes an object that has the methods of a protocol; only Python can give one."""

    label: str
    protocol: type
    bounds = ""

    def check(self, name: str, value: Any) -> Any:
        if isinstance(value, type) or not isinstance(value, self.protocol):
            refuse(name, f"a {self.label}", value)
        return value


class Function(Plain):
    """Takes what can be called; only Python can give it."""

    label = "function"

    def check(self, name: str, value: Any) -> Any:
        if not callable(value):
            refuse(name, "a function", value)
        return value
