"""JSON Schema (a part of draft 2020-12) as a language of JSON texts.

Every text of the language is valid under the schema; not every valid value has a text. What a schema leaves open is
settled so:

- Text is in the canonical form of `json_text`; a number has at most `max_digits` digits.
- An object has the properties that the schema names, in the order of `properties`, then others that are `required`.
  Only one that names none has keys of any text: `additionalProperties` says what their values are.
- Without a type the keywords decide: `minLength` alone means a string. With neither, any value of bounded depth.
- A `$ref` into itself is followed `max_recursion` times. Arrays and strings without a bound have none.
- `oneOf` is read where its branches provably exclude each other: by types, values, ranges, or a property.
- `format` is not a mere annotation: the formats of `json_formats` hold, others are refused.

Every other keyword is refused with its JSON pointer.
"""

from collections.abc import Iterable
from math import ceil, floor
from typing import Any
from urllib.parse import unquote

from gesso.constraints.expression import (
    NEVER,
    Expression,
    Joined,
    Text,
    choices,
    intersection,
    repeat,
    sequence,
    union,
)
from gesso.constraints.json_formats import format_expression
from gesso.constraints.json_keywords import (
    TYPES,
    TYPES_OF_KEYWORD,
    Plain,
    Schema,
    check,
    decimal,
    disjoint,
    escape_pointer,
    merge,
    plain,
    type_of,
    types,
)
from gesso.constraints.json_text import (
    Bound,
    JsonForm,
    any_value,
    array,
    integers,
    mapping,
    multiples,
    numbers,
)
from gesso.constraints.regex import parse_search
from gesso.errors import OptionError

MAX_ALTERNATIVES = 256
"""Of one value, once `anyOf` and its like are multiplied out."""

_PROOF_DEPTH = 3
"""Of properties in properties that tell the branches of a `oneOf` apart."""

Refs = tuple[str, ...]
"""The references on the way to a schema, innermost last."""


def schema_expression(schema: Schema, form: JsonForm | None = None) -> Expression:
    """JSON texts that are valid under a schema.

    Args:
        schema: a dict or a bool, as `json.loads` gives it.
        form: how JSON is laid out, and the limits of what the schema leaves open.

    Raises:
        OptionError: a keyword is not supported or malformed; the message starts with its JSON pointer.
    """
    expression = _Compiler(schema, JsonForm() if form is None else form).value(schema, "#", ())
    if expression == NEVER:
        raise OptionError("#: no value is valid under this schema, or its references never come to an end")
    return expression


class _Compiler:
    def __init__(self, root: Schema, form: JsonForm) -> None:
        self.root = root
        self.form = form
        # Where the schemas were written; merged ones know their parts by identity.
        self.pointers: dict[int, str] = {}
        self._locate(root, "#")

    def _locate(self, node: Any, pointer: str) -> None:
        if isinstance(node, dict | list):
            self.pointers[id(node)] = pointer
            items: Iterable[tuple[Any, Any]] = node.items() if isinstance(node, dict) else enumerate(node)
            for key, value in items:
                self._locate(value, f"{pointer}/{escape_pointer(str(key))}")

    def _resolve(self, reference: str, pointer: str) -> tuple[Schema, str]:
        path = unquote(reference)
        if path != "#" and not path.startswith("#/"):
            raise OptionError(f"{pointer}/$ref: only references into the schema itself (#/...) are supported")
        node = self.root
        for part in path.split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            try:
                node = node[int(key)] if isinstance(node, list) else node[key]
            except (LookupError, TypeError, ValueError):
                raise OptionError(f"{pointer}/$ref: {reference} leads nowhere") from None
        return node, path

    # Alternatives

    def expand(self, schema: Schema, pointer: str, refs: Refs, here: Refs = ()) -> list[tuple[Plain, Refs]]:
        """A schema as alternatives without references and combinators; none where nothing is valid.

        `here` are the references that were followed since the value in question was entered.
        """
        pointer = self.pointers.get(id(schema), pointer)
        check(schema, pointer)
        if isinstance(schema, bool):
            return [({}, refs)] if schema else []
        found = [(plain(schema), refs)]
        if "$ref" in schema:
            target, path = self._resolve(schema["$ref"], pointer)
            if path in here:
                raise OptionError(f"{pointer}/$ref: {path} leads back to itself without a value in between")
            if refs.count(path) >= self.form.max_recursion:
                return []
            found = self._both(found, self.expand(target, path, (*refs, path), (*here, path)), pointer)
        for place, part in enumerate(schema.get("allOf", ())):
            found = self._both(found, self.expand(part, f"{pointer}/allOf/{place}", refs, here), pointer)
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema:
                branches = [
                    self._both(found, self.expand(part, f"{pointer}/{keyword}/{place}", refs, here), pointer)
                    for place, part in enumerate(schema[keyword])
                ]
                if keyword == "oneOf":
                    self._check_one_of(branches, f"{pointer}/oneOf")
                found = [alternative for branch in branches for alternative in branch]
        return found

    def _both(
        self, one: list[tuple[Plain, Refs]], other: list[tuple[Plain, Refs]], pointer: str
    ) -> list[tuple[Plain, Refs]]:
        if len(one) * len(other) > MAX_ALTERNATIVES:
            raise OptionError(f"{pointer}: more than {MAX_ALTERNATIVES} alternatives")
        return [
            (merge(a, b, pointer), a_refs + b_refs[len(_common(a_refs, b_refs)) :])
            for a, a_refs in one
            for b, b_refs in other
        ]

    def _check_one_of(self, branches: list[list[tuple[Plain, Refs]]], pointer: str) -> None:
        def apart(one: Schema, other: Schema) -> bool:
            return self._apart(one, other, pointer, _PROOF_DEPTH)

        for second, branch in enumerate(branches):
            for first, before in enumerate(branches[:second]):
                if not all(disjoint(a, b, apart) for a, _ in before for b, _ in branch):
                    raise OptionError(
                        f"{pointer}: branches {first} and {second} may both be valid, which is not supported; "
                        "anyOf takes either"
                    )

    def _apart(self, one: Schema, other: Schema, pointer: str, depth: int) -> bool:
        """Whether no value is valid under both; what lies deeper than `depth` proves nothing."""

        def apart(a: Schema, b: Schema) -> bool:
            return depth > 0 and self._apart(a, b, pointer, depth - 1)

        first, second = self.expand(one, pointer, ()), self.expand(other, pointer, ())
        return all(disjoint(a, b, apart) for a, _ in first for b, _ in second)

    # Values

    def value(self, schema: Schema, pointer: str, refs: Refs) -> Expression:
        """The texts of all values that are valid."""
        pointer = self.pointers.get(id(schema), pointer)
        return union(self._plain(alternative, pointer, r) for alternative, r in self.expand(schema, pointer, refs))

    def _plain(self, schema: Plain, pointer: str, refs: Refs) -> Expression:
        if "enum" in schema:
            return self._enum(schema, pointer, refs)
        if not schema:
            return any_value(self.form, self.form.max_depth)
        names = types(schema)
        if "type" not in schema:
            names = frozenset(TYPES_OF_KEYWORD[keyword] for keyword in schema)
        if "number" in names:
            names -= {"integer"}
        return union(self._type(name, schema, pointer, refs) for name in TYPES if name in names)

    def _enum(self, schema: Plain, pointer: str, refs: Refs) -> Expression:
        options = []
        for value in schema["enum"]:
            kind = type_of(value)
            if kind not in types(schema):
                continue
            text = self.form.literal(value)
            rest = {
                key: part
                for key, part in schema.items()
                if TYPES_OF_KEYWORD.get(key) in {kind, "number" if kind == "integer" else kind}
            }
            if rest:
                # The rest is held against each value; a float that is whole is no integer's text.
                text = intersection(text, self._type("number" if kind == "integer" else kind, rest, pointer, refs))
            options.append(text)
        return union(options)

    def _type(self, name: str, schema: Plain, pointer: str, refs: Refs) -> Expression:
        match name:
            case "null":
                return Text("null")
            case "boolean":
                return choices(("true", "false"))
            case "string":
                return self._string(schema, pointer)
            case "array":
                return self._array(schema, pointer, refs)
            case "object":
                return self._object(schema, pointer, refs)
            case _:
                return self._number(name, schema, pointer)

    def _string(self, schema: Plain, pointer: str) -> Expression:
        parts: list[Expression] = []
        least, most = int(schema.get("minLength", 0)), schema.get("maxLength")
        if most is not None and most < least:
            return NEVER
        if least or most is not None:
            parts.append(repeat(self.form.character, least, None if most is None else int(most)))
        for pattern in schema.get("pattern", ()):
            try:
                parts.append(self.form.inside(parse_search(pattern)))
            except OptionError as error:
                raise OptionError(f"{pointer}/pattern: {error}") from None
        if "format" in schema:
            parts.append(format_expression(schema["format"]))
        return self.form.quoted(intersection(*parts)) if parts else self.form.any_string

    def _number(self, name: str, schema: Plain, pointer: str) -> Expression:
        lows = [
            Bound(decimal(schema[key]), key != "minimum") for key in ("minimum", "exclusiveMinimum") if key in schema
        ]
        highs = [
            Bound(decimal(schema[key]), key != "maximum") for key in ("maximum", "exclusiveMaximum") if key in schema
        ]
        low = max(lows, key=lambda bound: (bound.value, bound.exclusive), default=None)
        high = min(highs, key=lambda bound: (bound.value, not bound.exclusive), default=None)
        divisor = int(schema.get("multipleOf", 1))
        if name == "number" and divisor == 1 and "multipleOf" not in schema:
            try:
                return numbers(low, high, self.form)
            except OptionError as error:
                raise OptionError(f"{pointer}: {error}") from None
        first = None if low is None else floor(low.value) + 1 if low.exclusive else ceil(low.value)
        last = None if high is None else ceil(high.value) - 1 if high.exclusive else floor(high.value)
        whole = integers(first, last, self.form)
        return whole if divisor == 1 else intersection(whole, multiples(divisor))

    def _array(self, schema: Plain, pointer: str, refs: Refs) -> Expression:
        least = int(schema.get("minItems", 0))
        most = None if "maxItems" not in schema else int(schema["maxItems"])
        prefix = [
            self.value(part, f"{pointer}/prefixItems/{place}", refs)
            for place, part in enumerate(schema.get("prefixItems", ())[:most])
        ]
        if NEVER in prefix:
            most = prefix.index(NEVER)
            prefix = prefix[:most]
        item = NEVER
        if most is None or most > len(prefix):
            item = self.value(schema.get("items", True), f"{pointer}/items", refs)
        if item == NEVER:
            most = len(prefix)
        if most is not None and most < least:
            return NEVER
        left = None if most is None else most - len(prefix)
        if not prefix:
            return array(item, self.form, least, left)
        comma = Text(self.form.item_separator)
        rest = repeat(sequence(comma, item), max(least - len(prefix), 0), left)
        for place in range(len(prefix) - 1, -1, -1):
            rest = sequence(prefix[place], rest) if place == 0 else sequence(comma, prefix[place], rest)
            rest = rest if place < least else repeat(rest, 0, 1)
        return sequence(Text("["), rest, Text("]"))

    def _object(self, schema: Plain, pointer: str, refs: Refs) -> Expression:
        named: dict[str, Schema] = schema.get("properties", {})
        required = schema.get("required", [])
        others = schema.get("additionalProperties", True)
        if not named and not required:
            if others is False:
                return Text("{}")
            if others is True:
                return mapping(any_value(self.form, self.form.max_depth - 1), self.form)
            return mapping(self.value(others, f"{pointer}/additionalProperties", refs), self.form)
        named = named | {name: others for name in required if name not in named}
        items = []
        for name, part in named.items():
            value = self.value(part, f"{pointer}/properties/{escape_pointer(name)}", refs)
            if value == NEVER and name in required:
                return NEVER
            key = sequence(self.form.key(name), Text(self.form.key_separator))
            if value != NEVER:
                items.append((sequence(key, value), name in required))
        return sequence(Text("{"), Joined(tuple(items), self.form.item_separator), Text("}")) if items else Text("{}")


def _common(one: Refs, other: Refs) -> Refs:
    """What two ways start with."""
    length = 0
    while length < min(len(one), len(other)) and one[length] == other[length]:
        length += 1
    return one[:length]
