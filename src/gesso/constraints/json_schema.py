"""Reads JSON Schema (drafts 4 to 2020-12) as a language of JSON texts.

Every text of the language is valid under the schema; not every valid value has a text. What a schema leaves open is
settled so:

- Text is in the canonical form of `json_text`; a number has at most `max_digits` digits.
- An object has the properties that the schema names, in the order in which it names them, then others that are
  `required`, then, where the schema allows them, any others in any order. Where it names some and says nothing of
  others, those of the outermost object go deepest.
- Without a type the keywords decide: `minLength` alone means a string. With neither, any value of bounded depth.
- A `$ref` into itself is followed `max_recursion` times, and any value is `max_depth` deep; where the language would be
  too large otherwise, less (see `json_limits`). Arrays and strings without a bound have none.
- A `format` that is known holds (see `json_formats`); others are annotations, as are keywords that a draft does not
  know. A list of what was ignored can be had, and `strict` refuses it.

What cannot be held to exactly is refused with its JSON pointer.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from gesso.constraints import budget
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
from gesso.constraints.json_alternatives import Alternatives
from gesso.constraints.json_arrays import Arrays
from gesso.constraints.json_document import Document
from gesso.constraints.json_excluded import any_notation
from gesso.constraints.json_keywords import (
    TYPE_OF_KEYWORD,
    Plain,
    all_hashed,
    decimal,
    hashed,
    merge,
    type_of,
    types,
)
from gesso.constraints.json_limits import TooManyError, fitting
from gesso.constraints.json_numbers import (
    ZERO,
    Bound,
    Digits,
    numbers,
)
from gesso.constraints.json_objects import Objects, named_properties
from gesso.constraints.json_one_of import Refs
from gesso.constraints.json_places import Schema
from gesso.constraints.json_scalars import Scalars
from gesso.constraints.json_text import TYPES, JsonForm, any_of_type, any_value
from gesso.errors import OptionError


def schema_expression(
    schema: Schema, form: JsonForm | None = None, strict: bool = False
) -> tuple[Expression, tuple[str, ...]]:
    """Returns JSON texts that are valid under a schema, and the JSON pointers of keywords and formats that are not
    known.

    Args:
        schema: a dict or a bool, as `json.loads` gives it.
        form: how JSON is laid out, and the limits of what the schema leaves open.
        strict: refuses keywords and formats that are not known.

    Raises:
        OptionError: a keyword is not supported or malformed; the message starts with its JSON pointer.
    """
    document = Document(schema, strict)
    form = JsonForm() if form is None else form
    try:
        expression = _fitting(document, form)
    except RecursionError:
        raise OptionError("#: its parts are nested too deeply in each other") from None
    if expression == NEVER:
        raise document.unsaid or OptionError(
            "#: no value is valid under this schema, or its references never come to an end"
        )
    return expression, tuple(document.ignored)


def _fitting(document: Document, form: JsonForm) -> Expression:
    """The expression that goes deepest and is not too large."""

    def read(limits: Mapping[str, Any], most: float) -> tuple[Expression, int]:
        # With a layout of its own comes what is left open, which no limit makes deeper.
        own = {name: limit for name, limit in limits.items() if name != "open_depths"}
        limited = replace(form, **{name: min(getattr(form, name), limit) for name, limit in own.items()})
        if form.open_depths == JsonForm().open_depths:
            limited = replace(limited, open_depths=limits.get("open_depths", form.open_depths))
        return _Compiler(document, limited, most).read()

    return fitting(read)


class _Compiler:
    def __init__(self, document: Document, form: JsonForm, most: float) -> None:
        self.document, self.form = document, form
        self.most, self.parts = most, 0
        """Values that may be written, and those that were."""
        self.inside = -1
        """Values around the one that is being written."""
        self.alternatives = Alternatives(document, form.max_recursion, form.max_references)
        self.scalars = Scalars(document, form)
        self.known: dict[tuple[int, Refs, int], Expression] = {}
        """Expressions that were read, by the part of the document, the references on the way to it, and how deep it
        goes."""

    def read(self) -> tuple[Expression, int]:
        """The texts of the whole document, and of how many values it consists."""
        return self.value(self.document.root, "#", ()), self.parts

    @property
    def open_depth(self) -> int:
        return self.form.open_depths[min(self.inside, len(self.form.open_depths) - 1)]

    def value(self, schema: Schema, pointer: str, refs: Refs) -> Expression:
        """The texts of all values that are valid."""
        pointer = self.document.place(schema, pointer).pointer
        level = min(self.inside + 1, len(self.form.open_depths) - 1)
        key = (id(schema), refs, level) if self.document.holds(schema) else None
        if key is not None and (known := self.known.get(key)) is not None:
            return known
        self.parts += 1
        if self.parts > self.most:
            raise TooManyError
        found = self.alternatives.expand(schema, pointer, refs)
        self.inside += 1
        expression = union(self._plain(alternative, pointer, r) for alternative, r in found)
        self.inside -= 1
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
        excluded, names = all_hashed(schema.get("notEnum", ())), types(schema)
        options = []
        for place, value in enumerate(schema["enum"]):
            if place % 256 == 0:
                budget.current().check()
            kind = type_of(value)
            if kind not in names or hashed(value) in excluded:
                continue
            wide = "number" if kind == "integer" else kind
            rest = {key: part for key, part in schema.items() if TYPE_OF_KEYWORD.get(key) == wide}
            if rest and kind in ("array", "object"):
                options.append(self._parts(value, rest, pointer, refs))
                continue
            text = self.form.literal(value)
            if rest and wide == "number":
                text = text if self.scalars.allows(value, rest) else NEVER
            elif rest:
                text = _common(text, self._type(wide, rest, pointer, refs))
            if kind == "integer" and "number" not in names:
                text = _common(text, self.scalars.number(kind, {}, pointer))
            options.append(text)
        return union(options)

    def _parts(self, value: Any, rest: Plain, pointer: str, refs: Refs) -> Expression:
        """The texts of an object or array that is valid under the rest of a plain schema: each part is held against
        what is said of it, and members stand in the order in which the schema names them."""
        if isinstance(value, dict):
            shape: Any = ({name: {"const": part} for name, part in value.items()}, {}, False)
            return self._type("object", merge(rest, {"shapes": [shape], "required": [*value]}), pointer, refs)
        if rest.get("uniqueItems") and len(all_hashed(value)) < len(value):
            return NEVER
        rest = {key: part for key, part in rest.items() if key != "uniqueItems"}
        said = {"tuples": [([{"const": part} for part in value], False)], "minItems": len(value)}
        return self._type("array", merge(rest, said), pointer, refs)

    def _but(self, name: str, texts: Expression, schema: Plain, pointer: str) -> Expression:
        """The texts of one type without the values that are excluded."""
        removed = []
        for value in schema.get("notEnum", ()):
            kind = type_of(value)
            if kind == name or {kind, name} == {"integer", "number"}:
                if kind in ("integer", "number"):
                    bound = Bound(decimal(value), exclusive=False)
                    removed.append(numbers(bound, bound, Digits()) if value else ZERO)
                elif kind in ("array", "object"):
                    removed.append(any_notation(value, self.form, pointer, named_properties(schema)))
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


def _common(text: Expression, texts: Expression) -> Expression:
    """The spellings of a value that are among `texts`."""
    spellings = text.options if isinstance(text, Union) else (text,)
    told = [one for one in spellings if isinstance(one, Text)]
    if len(told) < len(spellings):
        return intersection(text, texts)
    return union(one for one in told if _compiled(texts).matches(one.text))


@lru_cache(maxsize=64)
def _compiled(texts: Expression) -> ByteAutomaton:
    return compile_bytes(texts)
