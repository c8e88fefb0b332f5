"""Writes JSON as text, in the canonical form that constraints generate.

One line, with the separators of a `JsonForm` and no other space. In strings every character stands for itself but
`"`, the backslash and control characters; of those the ones with a short escape (`\\n`) can be written, the others
cannot. For numbers see `json_numbers`.
"""

import json
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from gesso.constraints import charset
from gesso.constraints.expression import (
    EMPTY,
    NEVER,
    Anchor,
    Chars,
    Difference,
    Distinct,
    Expression,
    Fitting,
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
from gesso.constraints.json_numbers import Digits, any_number, literal
from gesso.errors import OptionError

TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")
"""Types of JSON Schema."""
SCALARS = frozenset(("null", "boolean", "number", "string"))
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_PLAIN = charset.difference(charset.ANY, charset.union(charset.make([(0, 0x1F)]), charset.of('"\\')))


@dataclass(frozen=True, slots=True)
class JsonForm:
    """Says how JSON is laid out, and how far what a schema leaves open may go.

    Raises:
        OptionError: a separator would not be read as one.
    """

    item_separator: str = ", "
    key_separator: str = ": "
    max_digits: int | None = None
    """Digits of a number at most, where its bounds ask for no more; None is no bound."""
    max_fraction: int | None = None
    """Digits after the point, where its bounds have no more."""
    max_depth: int = 5
    """Objects and arrays in each other, where a schema allows any value."""
    open_depths: tuple[int, ...] = (3, 2)
    """The same of properties that a schema does not name, where it names some and says nothing of others: of the
    outermost value, of those right inside it, and so on, the last of all that are farther in; with -1 there are none of
    those properties."""
    max_recursion: int = 5
    """How often a `$ref` may lead into itself."""
    max_references: int = 20
    """References in each other, of those that may lead into themselves."""
    distinct_states: int = 8_000
    """States at most of the automaton of an array of items that must differ, which bounds how many these are."""

    def __post_init__(self) -> None:
        if self.item_separator.strip(" \t\r\n") != "," or self.key_separator.strip(" \t\r\n") != ":":
            raise OptionError("the separators of JSON must be a comma and a colon, with spaces at most")
        limits = (self.max_digits, self.max_fraction, self.max_depth, self.max_recursion)
        digits = self.max_digits
        if min(one for one in limits if one is not None) < 1 or (digits and digits <= (self.max_fraction or 0)):
            raise OptionError("the limits of JSON must be 1 or more, and max_digits above max_fraction")

    def inside(self, expression: Expression) -> Expression:
        """Returns the language of the same texts as they are written inside a string."""
        return escape(expression)

    def quoted(self, body: Expression) -> Expression:
        """Returns a string, given what stands between its quotes."""
        return sequence(Text('"'), body, Text('"'))

    def key(self, name: str) -> Expression:
        """Returns the name of an object's member."""
        return self.literal(name)

    def key_text(self, name: str) -> str:
        """Returns the text of a member's name, whether or not it may be written."""
        return json.dumps(name, ensure_ascii=False)

    def as_keys(self, strings: Expression) -> Expression:
        """Returns these strings as names of members that no schema names."""
        return strings

    @property
    def any_key(self) -> Expression:
        """Returns any name of a member."""
        return _any_key(self)

    @property
    def quote(self) -> str:
        """Returns what stands around a string."""
        return '"'

    @property
    def digits(self) -> Digits:
        """Returns of a number that is no integer."""
        whole = self.max_digits and self.max_digits - (self.max_fraction or 0)
        return Digits(whole, self.max_fraction)

    def text(self, value: str) -> Expression:
        """Returns exactly this string."""
        return Text(json.dumps(value, ensure_ascii=False))

    def literal(self, value: Any) -> Expression:
        """Returns exactly this value, a number in the notations of `json_numbers.literal`."""
        match value:
            case str():
                return self.text(value)
            case bool() | None:
                return Text(json.dumps(value))
            case dict():
                members = [
                    sequence(self.key(name), Text(self.key_separator), self.literal(part))
                    for name, part in value.items()
                ]
                return self.between("{", members, "}")
            case list():
                return self.between("[", [self.literal(part) for part in value], "]")
            case _:
                return literal(value)

    def between(self, opening: str, items: list[Expression], closing: str) -> Expression:
        """Returns these items, separated, between brackets."""
        parts = [part for item in items for part in (Text(self.item_separator), item)][1:]
        return sequence(Text(opening), *parts, Text(closing))

    @property
    def character(self) -> Expression:
        """Returns one character of a string."""
        return self.inside(Chars(charset.ANY))

    @property
    def any_string(self) -> Expression:
        return _any_string(self)


# Strings


def escape(expression: Expression) -> Expression:
    """Returns the language of the same texts as they are written inside a JSON string."""
    match expression:
        case Chars(chars):
            return _escaped(chars)
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
        case Fitting(options, most_states):
            return Fitting(tuple(map(escape, options)), most_states)
        case Anchor() | Multiples() | Distinct():
            return expression


@lru_cache(maxsize=1024)
def _escaped(chars: charset.CharSet) -> Expression:
    short = (Text(text) for c, text in _ESCAPES.items() if charset.intersection(chars, charset.of(c)))
    plain = charset.intersection(chars, _PLAIN)
    return union([*([Chars(plain)] if plain else []), *short])


# Values


def array(item: Expression, form: JsonForm, least: int = 0, most: int | None = None) -> Expression:
    """Returns arrays of items of one kind."""
    return sequence(Text("["), repeat(item, least, most, form.item_separator), Text("]"))


def mapping(value: Expression, form: JsonForm) -> Expression:
    """Returns an object of any keys, all of whose values are of one kind."""
    member = sequence(form.any_key, Text(form.key_separator), value)
    return sequence(Text("{"), repeat(member, 0, None, form.item_separator), Text("}"))


@lru_cache(maxsize=64)
def any_value(form: JsonForm, depth: int) -> Expression:
    """Returns any value with at most `depth` arrays and objects in each other."""
    names = (name for name in TYPES if name != "integer" and (depth or name in SCALARS))
    return Whole(union(any_of_type(name, form, depth) for name in names))


@lru_cache(maxsize=64)
def _any_string(form: JsonForm) -> Expression:
    return Whole(form.quoted(Repeat(form.character)))


@lru_cache(maxsize=64)
def _any_key(form: JsonForm) -> Expression:
    return form.as_keys(form.any_string)


def any_of_type(name: str, form: JsonForm, depth: int) -> Expression:
    """Returns any value of one type but `integer` with at most `depth` arrays and objects in each other; `depth` is
    above 0 for those."""
    match name:
        case "null":
            return Text("null")
        case "boolean":
            return choices(("true", "false"))
        case "number":
            return any_number(form.digits)
        case "string":
            return form.any_string
        case "array":
            return array(any_value(form, depth - 1), form)
        case _:
            return mapping(any_value(form, depth - 1), form)


def json_object() -> Expression:
    """Returns any JSON object with at most `max_depth` arrays and objects in each other, itself included."""
    form = JsonForm()
    return mapping(any_value(form, form.max_depth - 1), form)
