"""Defines tool calls that are valid by construction, in the syntax of `gesso.text.tool_calls`.

Arguments follow a JSON Schema, read as `json_schema` reads it and written in a `CallForm`.
"""

from collections.abc import Collection, Mapping
from typing import Any

from gesso.constraints.call_form import CALL_END_MARK, CALL_MARK, INSIDE, CallForm, any_arguments
from gesso.constraints.expression import Expression, Text, choices, repeat, sequence, union
from gesso.constraints.json_places import Schema
from gesso.constraints.json_schema import schema_expression
from gesso.errors import OptionError


def tool_calls(
    functions: Mapping[str, Schema | None],
    *,
    calls: tuple[int, int | None] = (1, None),
    text_first: bool = False,
    strict: Collection[str] = (),
    free: Collection[str] = (),
) -> tuple[Expression, tuple[str, ...]]:
    """Returns calls of some functions, and the JSON pointers of what is not known in their schemas, each behind the
    function's name.

    Args:
        functions: the schema of each one's arguments by its name; None takes no arguments.
        calls: how many there are at least and at most.
        text_first: whether any text may come before them.
        strict: functions in whose schemas keywords and formats that are not known are refused.
        free: other functions, which may have any arguments that the parser reads.

    Raises:
        OptionError: a schema has a part that is not supported, or is none of an object.
    """
    options, ignored = list[Expression](), list[str]()
    for name, schema in functions.items():
        try:
            arguments, unknown = schema_expression(_object(schema), CallForm(), strict=name in strict)
        except OptionError as error:
            raise OptionError(f"tools: the parameters of {name}: {error}", option="tools") from None
        options.append(sequence(Text(f"call:{name}"), arguments))
        ignored += [f"{name}{pointer}" for pointer in unknown]
    if free:
        options.append(sequence(Text("call:"), choices(free), any_arguments()))
    made = repeat(sequence(CALL_MARK, union(options), CALL_END_MARK), *calls)
    return sequence(INSIDE, made) if text_first else made, tuple(ignored)


def _object(schema: Schema | None) -> dict[str, Any]:
    """Returns the schema of arguments, which are an object even where it allows other types beside."""
    if schema is None or schema == {}:
        return {"type": "object", "additionalProperties": False}
    if not isinstance(schema, dict):
        raise OptionError(f"#: the arguments are an object, not {schema!r}")
    kind = schema.get("type", "object")
    if "object" not in (kind if isinstance(kind, list) else [kind]):
        raise OptionError(f"#/type: the arguments are an object, not {kind!r:.60}")
    return {**schema, "type": "object"}
