"""Defines tool calls that are valid by construction, in the syntax of `gesso.text.tool_calls`.

Arguments follow a JSON Schema, read as `json_schema` reads it. Two things are narrower than in JSON: a string does not
contain `<|`, which may begin a special token's name, and where a schema leaves the keys of an object open it has one
member at most, because keys could come twice.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from gesso.constraints import charset
from gesso.constraints.expression import (
    NEVER,
    Chars,
    Expression,
    Repeat,
    Sequence,
    Text,
    intersection,
    repeat,
    sequence,
    union,
)
from gesso.constraints.json_places import Schema
from gesso.constraints.json_schema import schema_expression
from gesso.constraints.json_text import JsonForm
from gesso.constraints.placeholders import mark
from gesso.errors import OptionError
from gesso.text.tool_calls import CALL, CALL_END, QUOTE

SPECIAL = (CALL, CALL_END, QUOTE)
"""The special tokens of a call, in the order of their placeholders."""
_CALL, _CALL_END, _QUOTE = (Text(mark(number)) for number in range(len(SPECIAL)))
_BARE_KEY = re.compile(r"[A-Za-z0-9_.-]+")
_NOT_OPENING = Chars(charset.difference(charset.ANY, charset.of("<")))
_HARMLESS = Chars(charset.difference(charset.ANY, charset.of("<|")))
_INSIDE = Sequence(
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
    most_open_members: int | None = 1

    def inside(self, expression: Expression) -> Expression:
        return expression

    def quoted(self, body: Expression) -> Expression:
        return NEVER if body == NEVER else sequence(_QUOTE, intersection(_INSIDE, body), _QUOTE)

    def key(self, name: str) -> Expression:
        return Text(name) if _BARE_KEY.fullmatch(name) else self.quoted(Text(name))

    def key_text(self, name: str) -> str:
        return name if _BARE_KEY.fullmatch(name) else f"{self.quote}{name}{self.quote}"

    @property
    def quote(self) -> str:
        return _QUOTE.text

    def text(self, value: str) -> Expression:
        return self.quoted(Text(value))


def tool_calls(
    functions: Mapping[str, Schema | None],
    *,
    calls: tuple[int, int | None] = (1, None),
    text_first: bool = False,
    strict: Collection[str] = (),
) -> tuple[Expression, tuple[str, ...]]:
    """Returns calls of some functions, and the JSON pointers of what is not known in their schemas, each behind the
    function's name.

    Args:
        functions: the schema of each one's arguments by its name; None takes no arguments.
        calls: how many there are at least and at most.
        text_first: whether any text may come before them.
        strict: functions in whose schemas keywords and formats that are not known are refused.

    Raises:
        OptionError: a schema has a part that is not supported, or is none of an object.
    """
    options, ignored = [], []
    for name, schema in functions.items():
        try:
            whole = {"type": "object", **_object(schema)}
            arguments, unknown = schema_expression(whole, CallForm(), strict=name in strict)
        except OptionError as error:
            raise OptionError(f"tools: the parameters of {name}: {error}", option="tools") from None
        options.append(sequence(Text(f"call:{name}"), arguments))
        ignored += [f"{name}{pointer}" for pointer in unknown]
    made = repeat(sequence(_CALL, union(options), _CALL_END), *calls)
    return sequence(_INSIDE, made) if text_first else made, tuple(ignored)


def _object(schema: Schema | None) -> dict[str, Any]:
    if schema is None or schema == {}:
        return {"additionalProperties": False}
    if not isinstance(schema, dict):
        raise OptionError(f"#: the arguments are an object, not {schema!r}")
    if schema.get("type", "object") != "object":
        raise OptionError(f"#/type: the arguments are an object, not {schema['type']!r:.60}")
    return schema
