"""JSON as text, in the canonical form that constraints generate.

One line, with the separators of a `JsonForm` and no other space. In strings every character stands for itself but
`"`, the backslash and control characters; of those the ones with a short escape (`\\n`) can be written, the others
cannot. Numbers are plain decimals without an exponent, an integer part without leading zeros, at least one digit
after a point.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from gesso.constraints import charset
from gesso.constraints.expression import (
    EMPTY,
    NEVER,
    Anchor,
    Chars,
    Difference,
    Expression,
    Intersection,
    Joined,
    Multiples,
    Repeat,
    Sequence,
    Text,
    Union,
    Whole,
    choices,
    difference,
    intersection,
    repeat,
    sequence,
    union,
)
from gesso.errors import OptionError

_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_PLAIN = charset.difference(charset.ANY, charset.union(charset.make([(0, 0x1F)]), charset.of('"\\')))
_DIGIT = Chars(charset.DIGIT)


@dataclass(frozen=True, slots=True)
class JsonForm:
    """How JSON is laid out, and how far what a schema leaves open may go.

    Raises:
        OptionError: a separator would not be read as one.
    """

    item_separator: str = ", "
    key_separator: str = ": "
    max_digits: int = 15
    """Of a number, where its bounds ask for no more; so many survive the way through a float."""
    max_fraction: int = 6
    """Digits after the point, where its bounds have no more."""
    max_depth: int = 3
    """Objects and arrays in each other, where a schema allows any value."""
    max_recursion: int = 3
    """How often a `$ref` may lead into itself."""
    most_open_members: int | None = None
    """Of an object whose keys a schema leaves open."""

    def __post_init__(self) -> None:
        if self.item_separator.strip(" \t\r\n") != "," or self.key_separator.strip(" \t\r\n") != ":":
            raise OptionError("the separators of JSON must be a comma and a colon, with spaces at most")
        if self.max_digits <= self.max_fraction or self.max_fraction < 1 or min(self.max_depth, self.max_recursion) < 1:
            raise OptionError("the limits of JSON must be 1 or more, and max_digits above max_fraction")

    def inside(self, expression: Expression) -> Expression:
        """The language of the same texts as they are written inside a string."""
        return escape(expression)

    def quoted(self, body: Expression) -> Expression:
        """A string, given what stands between its quotes."""
        return sequence(Text('"'), body, Text('"'))

    def key(self, name: str) -> Expression:
        """The name of an object's member."""
        return self.literal(name)

    def literal(self, value: Any) -> Expression:
        """Exactly this value."""
        return Text(json.dumps(value, ensure_ascii=False, separators=(self.item_separator, self.key_separator)))

    @property
    def character(self) -> Expression:
        """One character of a string."""
        return self.inside(Chars(charset.ANY))

    @property
    def any_string(self) -> Expression:
        return self.quoted(Repeat(self.character))


# Strings


def escape(expression: Expression) -> Expression:
    """The language of the same texts as they are written inside a JSON string."""
    match expression:
        case Chars(chars):
            short = (Text(text) for c, text in _ESCAPES.items() if charset.intersection(chars, charset.of(c)))
            plain = charset.intersection(chars, _PLAIN)
            return union([*([Chars(plain)] if plain else []), *short])
        case Text(text):
            if any(c < " " and c not in _ESCAPES for c in text):
                return NEVER
            return Text("".join(_ESCAPES.get(c, c) for c in text))
        case Sequence(parts):
            return sequence(*map(escape, parts)) if parts else EMPTY
        case Union(options):
            return union(map(escape, options))
        case Repeat(body, least, most, separator):
            return repeat(escape(body), least, most, separator)
        case Joined(items):
            rest = None if expression.rest is None else escape(expression.rest)
            escaped = tuple((escape(item), required) for item, required in items)
            return replace(expression, items=escaped, rest=rest)
        case Difference(body, removed):
            return difference(escape(body), escape(removed))
        case Intersection(parts):
            return intersection(*map(escape, parts))
        case Whole(body):
            return NEVER if (inner := escape(body)) == NEVER else Whole(inner)
        case Anchor() | Multiples():
            return expression


# Numbers


def integers(low: int | None, high: int | None, form: JsonForm) -> Expression:
    """All integers from `low` to `high`, both included; without a bound, of at most `max_digits` digits."""
    digits = max(form.max_digits, *(len(str(abs(bound))) for bound in (low, high) if bound is not None), 0)
    low = 1 - 10**digits if low is None else low
    high = 10**digits - 1 if high is None else high
    positive = _naturals(max(low, 0), high)
    negative = sequence(Text("-"), _naturals(max(-high, 1), -low))
    return union([positive, negative])


def multiples(divisor: int, point: bool = False) -> Expression:
    """Integers that `divisor` divides; with a point, decimals whose digits without it are one."""
    return sequence(repeat(Text("-"), 0, 1), Multiples(divisor, point))


def _naturals(low: int, high: int) -> Expression:
    options = []
    whole: list[int] = []
    for digits in range(len(str(low)), len(str(max(high, 0))) + 1):
        smallest, largest = 10 ** (digits - 1) if digits > 1 else 0, 10**digits - 1
        first, last = max(low, smallest), min(high, largest)
        if digits > 1 and (first, last) == (smallest, largest):
            whole.append(digits)
        elif first <= last:
            options.append(_between(str(first), str(last)))
    if whole:
        options.append(sequence(_digits(ord("1"), ord("9")), repeat(_DIGIT, whole[0] - 1, whole[-1] - 1)))
    return union(options)


def _between(low: str, high: str) -> Expression:
    """Digits from `low` to `high`, both of one length."""
    rest = len(low) - 1
    if rest < 0:
        return EMPTY
    if set(low) == {"0"} and set(high) == {"9"}:
        return repeat(_DIGIT, rest + 1, rest + 1)
    if low[0] == high[0]:
        return sequence(Text(low[0]), _between(low[1:], high[1:]))
    inner = _digits(ord(low[0]) + 1, ord(high[0]) - 1)
    return union(
        [
            sequence(Text(low[0]), _between(low[1:], "9" * rest)),
            sequence(inner, repeat(_DIGIT, rest, rest)),
            sequence(Text(high[0]), _between("0" * rest, high[1:])),
        ]
    )


def _digits(first: int, last: int) -> Expression:
    return Chars(((first, last),)) if first <= last else NEVER


@dataclass(frozen=True, slots=True)
class Bound:
    """An end of a range of numbers."""

    value: Decimal
    exclusive: bool

    @property
    def fraction(self) -> str:
        """Digits after the point, without zeros at the end."""
        return f"{abs(self.value):f}".partition(".")[2].rstrip("0")


def numbers(low: Bound | None, high: Bound | None, form: JsonForm) -> Expression:
    """All numbers between two bounds, in the form and with the digits of `form`.

    Raises:
        OptionError: a bound is excluded that a float cannot tell from its neighbours.
    """
    bounds = [bound for bound in (low, high) if bound is not None]
    places = max(form.max_fraction, *(len(bound.fraction) for bound in bounds), 0)
    digits = max(form.max_digits - form.max_fraction, *(len(str(abs(int(bound.value)))) for bound in bounds), 0)
    if places + digits > 15 and any(bound.exclusive for bound in bounds):
        raise OptionError(f"a bound that is excluded may have no more than {15 - form.max_fraction} digits")
    zero = Bound(Decimal(0), exclusive=True)
    positive = _magnitudes(low, high, digits, places)
    # Minus nothing is left to the positive side.
    below = zero if high is None or high.value >= 0 else _negated(high)
    negative = sequence(Text("-"), _magnitudes(below, None if low is None else _negated(low), digits, places))
    return union([positive, negative])


def _negated(bound: Bound) -> Bound:
    return Bound(-bound.value, bound.exclusive)


def _magnitudes(low: Bound | None, high: Bound | None, digits: int, places: int) -> Expression:
    """Numbers without a sign."""
    if high is not None and high.value < 0:
        return NEVER
    top = 10**digits - 1
    tail = repeat(sequence(Text("."), repeat(_DIGIT, 1, places)), 0, 1)
    parts: list[Expression] = []
    if low is not None and low.value >= 0:
        whole = int(low.value)
        above = sequence(_naturals(whole + 1, top), tail)
        parts.append(union([above, sequence(_naturals(whole, whole), _tails(low, _at_least, places))]))
    if high is not None:
        whole = int(high.value)
        under = sequence(_naturals(0, whole - 1), tail)
        parts.append(union([under, sequence(_naturals(whole, whole), _tails(high, _at_most, places))]))
    return intersection(*parts) if parts else sequence(_naturals(0, top), tail)


def _tails(bound: Bound, digits: Callable[[str, bool], Expression], places: int) -> Expression:
    """What may follow the integer part of a bound: nothing, or a point and digits."""
    any_digits = repeat(_DIGIT, 1, places)
    body = digits(bound.fraction, bound.exclusive)
    nothing = digits is _at_most if bound.fraction else not bound.exclusive
    return union([*([EMPTY] if nothing else []), sequence(Text("."), intersection(any_digits, body))])


def _at_most(fraction: str, exclusive: bool) -> Expression:
    """Digits after a point whose value is at most that of `fraction`; of any length, none included."""
    if not fraction:
        return NEVER if exclusive else Repeat(Text("0"))
    less = sequence(_digits(ord("0"), ord(fraction[0]) - 1), Repeat(_DIGIT))
    return union([EMPTY, less, sequence(Text(fraction[0]), _at_most(fraction[1:], exclusive))])


def _at_least(fraction: str, exclusive: bool) -> Expression:
    """Digits after a point whose value is at least that of `fraction`; of any length."""
    if not fraction:
        more = sequence(Repeat(Text("0")), _digits(ord("1"), ord("9")), Repeat(_DIGIT))
        return more if exclusive else Repeat(_DIGIT)
    more = sequence(_digits(ord(fraction[0]) + 1, ord("9")), Repeat(_DIGIT))
    return union([more, sequence(Text(fraction[0]), _at_least(fraction[1:], exclusive))])


# Values


def array(item: Expression, form: JsonForm, least: int = 0, most: int | None = None) -> Expression:
    """Items of one kind."""
    return sequence(Text("["), repeat(item, least, most, form.item_separator), Text("]"))


def mapping(value: Expression, form: JsonForm) -> Expression:
    """An object of any keys, all of whose values are of one kind."""
    member = sequence(form.any_string, Text(form.key_separator), value)
    return sequence(Text("{"), repeat(member, 0, form.most_open_members, form.item_separator), Text("}"))


def any_value(form: JsonForm, depth: int) -> Expression:
    """Any value with at most `depth` arrays and objects in each other."""
    scalars = [choices(("null", "true", "false")), numbers(None, None, form), form.any_string]
    if not depth:
        return union(scalars)
    inner = any_value(form, depth - 1)
    return union([*scalars, array(inner, form), mapping(inner, form)])


def json_object(form: JsonForm | None = None) -> Expression:
    """Any JSON object with at most `max_depth` arrays and objects in each other, itself included."""
    form = JsonForm() if form is None else form
    return mapping(any_value(form, form.max_depth - 1), form)
