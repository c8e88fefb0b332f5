"""Defines how values are written in a tool call, in the syntax of `gesso.text.tool_calls`.

Strings stand between quote tokens, without escapes, and do not contain `<|`, which may begin a special token's name.
Keys are bare where they are made of letters, digits, `_`, `.` and `-`.
"""

import re
from dataclasses import dataclass

from gesso.constraints import charset
from gesso.constraints.expression import (
    NEVER,
    Chars,
    Difference,
    Expression,
    Fitting,
    Intersection,
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
from gesso.constraints.json_text import JsonForm
from gesso.constraints.placeholders import mark
from gesso.constraints.regex import parse
from gesso.text.tool_calls import CALL, CALL_END, QUOTE

SPECIAL = (CALL, CALL_END, QUOTE)
"""The special tokens of a call, in the order of their placeholders."""
CALL_MARK, CALL_END_MARK, _QUOTE = (Text(mark(number)) for number in range(len(SPECIAL)))
_BARE_KEY = re.compile(r"[A-Za-z0-9_.-]+")
_BARE = parse(_BARE_KEY.pattern)
_NOT_OPENING = Chars(charset.difference(charset.ANY, charset.of("<")))
_HARMLESS = Chars(charset.difference(charset.ANY, charset.of("<|")))
INSIDE = Sequence(
    (
        Repeat(union([_NOT_OPENING, sequence(Repeat(Text("<"), 1), _HARMLESS)])),
        Repeat(Text("<")),
    )
)
"""Texts without `<|`."""


@dataclass(frozen=True, slots=True)
class CallForm(JsonForm):
    """Writes arguments as Gemma does: strings between quote tokens, without escapes; bare keys."""

    item_separator: str = ","
    key_separator: str = ":"

    def inside(self, expression: Expression) -> Expression:
        return expression

    def quoted(self, body: Expression) -> Expression:
        return NEVER if body == NEVER else sequence(_QUOTE, intersection(INSIDE, body), _QUOTE)

    def key(self, name: str) -> Expression:
        return Text(name) if _BARE_KEY.fullmatch(name) else self.quoted(Text(name))

    def key_text(self, name: str) -> str:
        return name if _BARE_KEY.fullmatch(name) else f"{self.quote}{name}{self.quote}"

    def as_keys(self, strings: Expression) -> Expression:
        return union([strings, intersection(_BARE, _unquoted(strings))])

    @property
    def quote(self) -> str:
        return _QUOTE.text

    def text(self, value: str) -> Expression:
        return self.quoted(Text(value))


def _unquoted(strings: Expression) -> Expression:
    """What stands between the quotes of strings; of those alone that are written as `quoted` writes them."""
    match strings:
        case Sequence((_, body, _)) if strings.parts[0] == _QUOTE:
            return body
        case Union(options):
            return union(map(_unquoted, options))
        case Intersection(parts):
            return intersection(*map(_unquoted, parts))
        case Difference(body, removed):
            return difference(_unquoted(body), _unquoted(removed))
        case Whole(body):
            return _unquoted(body)
        case Fitting(options):
            return union(map(_unquoted, options))
        case _:
            raise TypeError(f"{strings!r:.60} is no language of strings")


# Arguments that no schema holds

_FREE_DEPTH = 3
"""Objects and lists in each other whose brackets match."""
_SPACE = Repeat(Chars(charset.of(" \t\r\n")))
_STRING = sequence(_QUOTE, INSIDE, _QUOTE)
_PLAIN_KEY = intersection(INSIDE, parse(r'[^{}\[\],:" \t\r\n][^{}\[\],:"]*'))
_WORD = union([choices(("null", "true", "false")), parse(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?")])
_FIELD = sequence(_SPACE, union([_PLAIN_KEY, _STRING]), _SPACE, Text(":"))
_ANYTHING = Repeat(union([Chars(charset.difference(charset.ANY, charset.of('"<'))), _STRING]))


def any_arguments() -> Expression:
    """Returns the arguments that the parser reads, but for keys with `<|`, and little else: once they are nested deep
    brackets need not match, and a number may be larger than any that JSON's readers hold."""
    return union([_object(_FREE_DEPTH), sequence(_opened_object(_FREE_DEPTH), _ANYTHING, Text("}"))])


def _value(depth: int) -> Expression:
    """Any value of so many objects and lists in each other."""
    nested = [_object(depth), _list(depth)] if depth else []
    return sequence(_SPACE, union([_WORD, _STRING, *nested]), _SPACE)


def _object(depth: int) -> Expression:
    return sequence(Text("{"), union([repeat(sequence(_FIELD, _value(depth - 1)), 1, None, ","), _SPACE]), Text("}"))


def _list(depth: int) -> Expression:
    return sequence(Text("["), union([repeat(_value(depth - 1), 1, None, ","), _SPACE]), Text("]"))


def _opened(depth: int) -> Expression:
    """What stands before the first value that is nested deeper, and its opening bracket."""
    nested = union([_opened_object(depth), _opened_list(depth)]) if depth else Chars(charset.of("{["))
    return sequence(_SPACE, nested)


def _opened_object(depth: int) -> Expression:
    before = repeat(sequence(_FIELD, _value(depth - 1), Text(",")))
    return sequence(Text("{"), before, _FIELD, _opened(depth - 1))


def _opened_list(depth: int) -> Expression:
    return sequence(Text("["), repeat(sequence(_value(depth - 1), Text(","))), _opened(depth - 1))
