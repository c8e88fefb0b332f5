"""Reads JSON Schema (drafts 4 to 2020-12) as a language of JSON texts.

Every text of the language is valid under the schema; not every valid value has a text. What a schema leaves open is
settled so:

- Text is in the canonical form of `json_text`; a number has at most `max_digits` digits.
- An object has the properties that the schema names, in the order in which it names them, then others that are
  `required`, then, where the schema allows them, any others in any order. Where it names some and says nothing of
  others, values of those have depth 1 at most.
- Without a type the keywords decide: `minLength` alone means a string. With neither, any value of bounded depth.
- A `$ref` into itself is followed `max_recursion` times, and any value is `max_depth` deep; in a schema whose language
  would be too large otherwise, less. Arrays and strings without a bound have none.
- A `format` that is known holds (see `json_formats`); others are annotations, as are keywords that a draft does not
  know. A list of what was ignored can be had, and `strict` refuses it.

What cannot be held to exactly is refused with its JSON pointer.
"""

from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from math import inf

from gesso.constraints.byte_table import ByteAutomaton
from gesso.constraints.bytes_automaton import compile_bytes
from gesso.constraints.expression import (
    NEVER,
    Expression,
    Text,
    Union,
    choices,
    difference,
    intersection,
    union,
)
from gesso.constraints.json_alternatives import Alternatives, Refs
from gesso.constraints.json_arrays import Arrays
from gesso.constraints.json_document import Document, Schema
from gesso.constraints.json_keywords import (
    TYPE_OF_KEYWORD,
    Plain,
    decimal,
    same,
    type_of,
    types,
)
from gesso.constraints.json_numbers import (
    ZERO,
    Bound,
    Digits,
    numbers,
)
from gesso.constraints.json_objects import Objects
from gesso.constraints.json_scalars import Scalars
from gesso.constraints.json_text import TYPES, JsonForm, any_of_type, any_value
from gesso.constraints.measures import spelled_size
from gesso.errors import OptionError

LARGE = 30_000
"""Size of an expression from which on what a schema leaves open goes less deep."""
SMALL = 4_000
"""Size up to which it goes deepest."""
MAX_PARTS = 4000
"""Values in each other of a schema, from which on the same."""
_SHALLOWER: tuple[dict[str, int], ...] = (
    {"open_depth": 1},
    {"max_recursion": 2, "max_depth": 2, "open_depth": 0, "max_references": 8},
    {"max_recursion": 1, "max_depth": 1, "open_depth": 0, "max_references": 4},
    {"max_recursion": 1, "max_depth": 1, "open_depth": -1, "max_references": 2},
    {"max_recursion": 1, "max_depth": 1, "open_depth": -1, "max_references": 1},
)


def schema_expression(
    schema: Schema, form: JsonForm | None = None, strict: bool = False, ignored: list[str] | None = None
) -> Expression:
    """Returns JSON texts that are valid under a schema.

    Args:
        schema: a dict or a bool, as `json.loads` gives it.
        form: how JSON is laid out, and the limits of what the schema leaves open.
        strict: refuses keywords and formats that are not known.
        ignored: gets the JSON pointers of those where they are not refused.

    Raises:
        OptionError: a keyword is not supported or malformed; the message starts with its JSON pointer.
    """
    document = Document(schema, strict)
    form = JsonForm() if form is None else form
    expression: Expression | None = None
    try:
        # What is left open goes as deep as there is room for.
        for limits in ({}, *_SHALLOWER):
            form = replace(form, **{name: min(getattr(form, name), limit) for name, limit in limits.items()})
            with suppress(_TooManyError):
                shallower = _Compiler(document, form, last=limits is _SHALLOWER[-1]).value(schema, "#", ())
                expression = shallower if expression is None or shallower != NEVER else expression
                if spelled_size(expression) <= (LARGE if limits else SMALL):
                    break
    except RecursionError:
        raise OptionError("#: its parts are nested too deeply in each other") from None
    assert expression is not None
    if expression == NEVER:
        raise OptionError("#: no value is valid under this schema, or its references never come to an end")
    if ignored is not None:
        ignored += document.ignored
    return expression


class _TooManyError(Exception):
    """The schema has too many parts when it goes this deep."""


class _Compiler:
    def __init__(self, document: Document, form: JsonForm, last: bool) -> None:
        self.document, self.form = document, form
        self.left = inf if last else MAX_PARTS
        self.alternatives = Alternatives(document, form.max_recursion, form.max_references)
        self.scalars = Scalars(document, form)
        self.known: dict[tuple[int, Refs], Expression] = {}
        """By a part of the document and the references on the way to it."""

    def value(self, schema: Schema, pointer: str, refs: Refs) -> Expression:
        """The texts of all values that are valid."""
        pointer = self.document.place(schema, pointer).pointer
        key = (id(schema), refs) if self.document.holds(schema) else None
        if key is not None and (known := self.known.get(key)) is not None:
            return known
        self.left -= 1
        if self.left < 0:
            raise _TooManyError
        found = self.alternatives.expand(schema, pointer, refs)
        expression = union(self._plain(alternative, pointer, r) for alternative, r in found)
        if key is not None:
            self.known[key] = expression
        return expression

    def every(self, schemas: list[Schema], pointer: str, refs: Refs) -> Expression:
        """The texts of all values that are valid under each of several schemas."""
        told = [schema for schema in schemas if schema is not True]
        return self.value(told[0] if len(told) == 1 else {"allOf": told} if told else True, pointer, refs)

    def _plain(self, schema: Plain, pointer: str, refs: Refs) -> Expression:
        if "enum" in schema:
            return self.enum(schema, pointer, refs)
        if not schema:
            return any_value(self.form, self.form.max_depth)
        names = types(schema)
        told = {TYPE_OF_KEYWORD[key] for key in schema if key in TYPE_OF_KEYWORD}
        if "number" in names:
            names -= {"integer"}
        options = []
        for name in TYPES:
            if name in names:
                # Keywords speak of values of one type, and let all others pass.
                free = "type" not in schema and name not in told
                texts = any_of_type(name, self.form, 1) if free and name != "number" else None
                texts = self._type(name, schema, pointer, refs) if texts is None else texts
                options.append(self._but(name, texts, schema, pointer))
        return union(options)

    def enum(self, schema: Plain, pointer: str, refs: Refs) -> Expression:
        options = []
        for value in schema["enum"]:
            kind = type_of(value)
            if kind not in types(schema) or any(same(value, other) for other in schema.get("notEnum", ())):
                continue
            text = self.form.literal(value)
            if kind == "integer" and "number" not in types(schema):
                text = intersection(text, self.scalars.number(kind, {}, pointer))
            wide = "number" if kind == "integer" else kind
            rest = {key: part for key, part in schema.items() if TYPE_OF_KEYWORD.get(key) in {kind, wide}}
            if rest and kind in ("array", "object"):
                text = intersection(text, self._type(wide, rest, pointer, refs))
            elif rest:
                # The rest is held against each value.
                texts = self._type(wide, rest, pointer, refs)
                spellings = text.options if isinstance(text, Union) else (text,)
                if all(isinstance(spelling, Text) for spelling in spellings):
                    text = union(
                        one for one in spellings if isinstance(one, Text) and _compiled(texts).matches(one.text)
                    )
                else:
                    text = intersection(text, texts)
            options.append(text)
        return union(options)

    def _but(self, name: str, texts: Expression, schema: Plain, pointer: str) -> Expression:
        """The texts of one type without the values that are excluded."""
        removed = []
        for value in schema.get("notEnum", ()):
            kind = type_of(value)
            if kind == name or {kind, name} == {"integer", "number"}:
                if value and kind in ("array", "object"):
                    raise OptionError(f"{pointer}: that a value is not {value!r:.60} is not supported")
                if kind in ("integer", "number"):
                    bound = Bound(decimal(value), exclusive=False)
                    removed.append(numbers(bound, bound, Digits()) if value else ZERO)
                else:
                    removed.append(self.form.literal(value))
        return difference(texts, union(removed))

    def _type(self, name: str, schema: Plain, pointer: str, refs: Refs) -> Expression:
        match name:
            case "null":
                return Text("null")
            case "boolean":
                return choices(("true", "false"))
            case "string":
                return self.scalars.string(schema, pointer)
            case "array":
                return Arrays(self).texts(schema, pointer, refs)
            case "object":
                return Objects(self).texts(schema, pointer, refs)
            case _:
                return self.scalars.number(name, schema, pointer)


@lru_cache(maxsize=64)
def _compiled(texts: Expression) -> ByteAutomaton:
    return compile_bytes(texts)
