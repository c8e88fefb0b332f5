"""JSON Schema (drafts 4 to 2020-12) as a language of JSON texts.

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

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import permutations
from math import ceil, floor
from typing import Any

from gesso.constraints.byte_table import ByteAutomaton
from gesso.constraints.bytes_automaton import compile_bytes
from gesso.constraints.expression import (
    NEVER,
    Expression,
    Joined,
    Repeat,
    Text,
    Union,
    choices,
    difference,
    intersection,
    repeat,
    sequence,
    union,
)
from gesso.constraints.json_alternatives import Alternatives, Refs
from gesso.constraints.json_document import Document, Schema, escape_pointer
from gesso.constraints.json_formats import FORMATS, format_expression
from gesso.constraints.json_keywords import (
    TYPE_OF_KEYWORD,
    Plain,
    decimal,
    of_property,
    same,
    type_of,
    types,
)
from gesso.constraints.json_numbers import (
    ZERO,
    Bound,
    Digits,
    any_number,
    decimal_multiples,
    integers,
    numbers,
    whole_divisor,
    whole_multiples,
)
from gesso.constraints.json_text import TYPES, JsonForm, any_of_type, any_value, array
from gesso.constraints.measures import spelled_size
from gesso.constraints.regex import parse_search
from gesso.errors import OptionError

LARGE = 30_000
"""Size of an expression from which on what a schema leaves open goes less deep."""
_SHALLOWER = (
    {"max_recursion": 2, "max_depth": 2, "open_depth": 0},
    {"max_recursion": 1, "max_depth": 1, "open_depth": 0},
    {"max_recursion": 1, "max_depth": 1, "open_depth": -1},
)
MAX_PATTERNS = 5
"""`patternProperties` of one object."""
MAX_SHUFFLED = 5
"""Items of a `uniqueItems` that are written in any order; of more, in the order of the schema."""


def schema_expression(
    schema: Schema, form: JsonForm | None = None, strict: bool = False, ignored: list[str] | None = None
) -> Expression:
    """JSON texts that are valid under a schema.

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
    try:
        expression = _Compiler(document, form).value(schema, "#", ())
        # What is left open goes as deep as there is room for.
        for limits in _SHALLOWER:
            if spelled_size(expression) <= LARGE:
                break
            form = replace(form, **{name: min(getattr(form, name), limit) for name, limit in limits.items()})
            shallower = _Compiler(document, form).value(schema, "#", ())
            if shallower == NEVER:
                break
            expression = shallower
    except RecursionError:
        raise OptionError("#: its parts are nested too deeply in each other") from None
    if expression == NEVER:
        raise OptionError("#: no value is valid under this schema, or its references never come to an end")
    if ignored is not None:
        ignored += document.ignored
    return expression


class _Compiler:
    def __init__(self, document: Document, form: JsonForm) -> None:
        self.document, self.form = document, form
        self.alternatives = Alternatives(document, form.max_recursion)
        self.known: dict[tuple[int, Refs], Expression] = {}
        """By a part of the document and the references on the way to it."""

    def value(self, schema: Schema, pointer: str, refs: Refs) -> Expression:
        """The texts of all values that are valid."""
        pointer = self.document.place(schema, pointer).pointer
        key = (id(schema), refs) if self.document.holds(schema) else None
        if key is not None and (known := self.known.get(key)) is not None:
            return known
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
            return self._enum(schema, pointer, refs)
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

    def _enum(self, schema: Plain, pointer: str, refs: Refs) -> Expression:
        options = []
        held: dict[str, ByteAutomaton] = {}
        for value in schema["enum"]:
            kind = type_of(value)
            if kind not in types(schema) or any(same(value, other) for other in schema.get("notEnum", ())):
                continue
            text = self.form.literal(value)
            if kind == "integer" and "number" not in types(schema):
                text = intersection(text, self._number(kind, {}, pointer))
            wide = "number" if kind == "integer" else kind
            rest = {key: part for key, part in schema.items() if TYPE_OF_KEYWORD.get(key) in {kind, wide}}
            if rest and kind in ("array", "object"):
                text = intersection(text, self._type(wide, rest, pointer, refs))
            elif rest:
                # The rest is held against each value.
                if wide not in held:
                    held[wide] = compile_bytes(self._type(wide, rest, pointer, refs))
                spellings = text.options if isinstance(text, Union) else (text,)
                if all(isinstance(spelling, Text) for spelling in spellings):
                    text = union(one for one in spellings if isinstance(one, Text) and held[wide].matches(one.text))
                else:
                    text = intersection(text, self._type(wide, rest, pointer, refs))
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
                return self._string(schema, pointer)
            case "array":
                return self._array(schema, pointer, refs)
            case "object":
                return self._object(schema, pointer, refs)
            case _:
                return self._number(name, schema, pointer)

    # Strings and numbers

    def _string(self, schema: Plain, pointer: str) -> Expression:
        parts: list[Expression] = []
        least, most = int(schema.get("minLength", 0)), schema.get("maxLength")
        if most is not None and most < least:
            return NEVER
        if least or most is not None:
            parts.append(repeat(self.form.character, least, None if most is None else int(most)))
        parts += [self.form.inside(self.pattern(text, pointer)) for text, holds in schema.get("pattern", ()) if holds]
        for name in schema.get("format", ()):
            if name in FORMATS:
                parts.append(self.form.inside(format_expression(name)))
            else:
                self.document.ignore(f"{pointer}/format", f"the format {name!r:.60} is not known")
        told = schema.get("pattern", ())
        denied = [self.form.inside(self.pattern(text, pointer, True)) for text, holds in told if not holds]
        if not parts and not denied:
            return self.form.any_string
        body = intersection(*parts) if parts else Repeat(self.form.character)
        return self.form.quoted(difference(body, union(denied)))

    def pattern(self, text: str, pointer: str, wide: bool = False) -> Expression:
        """The texts in which a pattern matches."""
        try:
            return parse_search(text, wide)
        except OptionError as error:
            raise OptionError(f"{pointer}/pattern: {error}") from None

    def _number(self, name: str, schema: Plain, pointer: str) -> Expression:
        lows = [
            Bound(decimal(schema[key]), key != "minimum") for key in ("minimum", "exclusiveMinimum") if key in schema
        ]
        highs = [
            Bound(decimal(schema[key]), key != "maximum") for key in ("maximum", "exclusiveMaximum") if key in schema
        ]
        bounds = lows + highs
        low = max(lows, key=lambda bound: (bound.value, bound.exclusive), default=None)
        high = min(highs, key=lambda bound: (bound.value, not bound.exclusive), default=None)
        steps = [step for step, holds in schema.get("multipleOf", ()) if holds]
        denied = [step for step, holds in schema.get("multipleOf", ()) if not holds]
        whole = name == "integer" or any(step == int(step) for step in steps)
        if whole and any(whole_divisor(step) == 1 for step in denied):
            return NEVER
        try:
            if whole:
                first = None if low is None else floor(low.value) + 1 if low.exclusive else ceil(low.value)
                last = None if high is None else ceil(high.value) - 1 if high.exclusive else floor(high.value)
                texts = integers(first, last, Digits(self.form.max_digits))
                texts = intersection(texts, *(whole_multiples(step) for step in steps if whole_divisor(step) > 1))
                texts = difference(texts, union(map(whole_multiples, denied)))
                # A fraction of zero makes no difference, but to draft 4.
                point = name == "number" or not self.document.only_plain_integers
                return sequence(texts, repeat(Text(".0"), 0, 1)) if point else texts
            if not (bounds or steps or denied or schema.get("notEnum")):
                return any_number(self.form.digits)
            texts = intersection(numbers(low, high, self.form.digits), *map(decimal_multiples, steps))
            return difference(texts, union(map(decimal_multiples, denied)))
        except OptionError as error:
            raise OptionError(f"{pointer}: {error}") from None

    # Arrays

    def _array(self, schema: Plain, pointer: str, refs: Refs) -> Expression:
        least = int(schema.get("minItems", 0))
        most = None if "maxItems" not in schema else int(schema["maxItems"])
        tuples = schema.get("tuples", [])
        length = max((len(prefix) for prefix, _ in tuples), default=0)
        rest: list[Schema] = [items for _, items in tuples]
        prefix = [
            self.every([parts[place] if place < len(parts) else items for parts, items in tuples],
                       f"{pointer}/prefixItems/{place}", refs)
            for place in range(length)[:most]
        ]  # fmt: skip
        if NEVER in prefix:
            most = prefix.index(NEVER)
            prefix = prefix[:most]
        if "contains" in schema:
            return self._containing(schema, rest, prefix, pointer, refs)
        item = NEVER
        if most is None or most > len(prefix):
            item = self.every(rest, f"{pointer}/items", refs)
        if item == NEVER:
            most = len(prefix)
        if most is not None and most < least:
            return NEVER
        if schema.get("uniqueItems") and (most is None or most > 1):
            return self._unique(rest, prefix, least, most, pointer)
        left = None if most is None else most - len(prefix)
        if not prefix:
            return array(item, self.form, least, left)
        comma = Text(self.form.item_separator)
        texts = repeat(sequence(comma, item), max(least - len(prefix), 0), left)
        for place in range(len(prefix) - 1, -1, -1):
            texts = sequence(prefix[place], texts) if place == 0 else sequence(comma, prefix[place], texts)
            texts = texts if place < least else repeat(texts, 0, 1)
        return sequence(Text("["), texts, Text("]"))

    def _containing(
        self, schema: Plain, rest: list[Schema], prefix: list[Expression], pointer: str, refs: Refs
    ) -> Expression:
        """Arrays some of whose items are valid under schemas of their own."""
        if prefix or schema.get("uniqueItems"):
            raise OptionError(f"{pointer}/contains: together with prefixItems or uniqueItems it is not supported")
        parts = []
        if "minItems" in schema or "maxItems" in schema:
            most = schema.get("maxItems")
            item = self.every(rest, f"{pointer}/items", refs)
            parts.append(array(item, self.form, int(schema.get("minItems", 0)), None if most is None else int(most)))
        comma = Text(self.form.item_separator)
        for part, least, most in schema["contains"]:
            if most is not None and most < least:
                return NEVER
            found = self.every([*rest, part], f"{pointer}/contains", refs)
            # Others need not be told from those that count where they may count as well.
            told = rest if most is None else [*rest, {"not": part}]
            other = self.every(told, f"{pointer}/contains", refs)
            others = repeat(sequence(comma, other))
            counted = sequence(comma, found, others)

            def times(low: int, high: int | None, counted: Expression = counted) -> Expression:
                return repeat(counted, low, high) if high is None or high >= low else NEVER

            options = [sequence(other, others, times(least, most))]
            if most is None or most > 0:
                options.append(sequence(found, others, times(max(least - 1, 0), None if most is None else most - 1)))
            options += [Text("")] if least == 0 else []
            parts.append(sequence(Text("["), union(options), Text("]")))
        return intersection(*parts)

    def _unique(
        self, rest: list[Schema], prefix: list[Expression], least: int, most: int | None, pointer: str
    ) -> Expression:
        """Arrays of different items, of a few that there are."""
        told = [schema for schema in rest if schema is not True]
        found = [] if prefix or not told else self.alternatives.expand({"allOf": told}, pointer, ())
        values: list[Any] = []
        for alternative, _ in found:
            given = alternative.get("enum")
            if given is None and types(alternative) <= {"boolean", "null"}:
                given = [v for v in (True, False, None) if type_of(v) in types(alternative)]
            if given is None:
                values = []
                break
            for value in given:
                one = self._enum({**alternative, "enum": [value]}, pointer, ())
                if not compile_bytes(one).empty and not any(same(value, other) for other in values):
                    values.append(value)
        if not values:
            raise OptionError(f"{pointer}/uniqueItems: only of items that are an enum it is supported")
        texts = [self.form.literal(value) for value in values]
        if len(texts) > MAX_SHUFFLED:
            listed = Joined(tuple((text, False) for text in texts), self.form.item_separator, None, least, most)
            return sequence(Text("["), listed, Text("]"))
        comma = Text(self.form.item_separator)
        options: list[Expression] = []
        for length in range(least, min(len(texts), most if most is not None else len(texts)) + 1):
            for chosen in permutations(texts, length):
                parts = [part for text in chosen for part in (comma, text)][1:]
                options.append(sequence(Text("["), *parts, Text("]")))
        return union(options)

    # Objects

    def _object(self, schema: Plain, pointer: str, refs: Refs) -> Expression:
        shapes = schema.get("shapes", [])
        required = schema.get("required", [])
        names = schema.get("names", [])
        least, most = int(schema.get("minProperties", 0)), schema.get("maxProperties")
        most = None if most is None else int(most)
        named = list(dict.fromkeys([*(name for shape in shapes for name in shape[0]), *required]))
        items = []
        for name in named:
            parts = [part for shape in shapes for part in of_property(shape, name, self._matcher(pointer))]
            value = NEVER
            if self._may_be_named(name, names, pointer):
                value = self.every(parts, f"{pointer}/properties/{escape_pointer(name)}", refs)
            if value == NEVER and name in required:
                return NEVER
            key = sequence(self.form.key(name), Text(self.form.key_separator))
            if value != NEVER:
                items.append((sequence(key, value), name in required))
        rest = NEVER
        if most is None or most > len(required):
            rest = self._others(shapes, names, named, pointer, refs)
        if rest == NEVER and least > len(items):
            return NEVER
        if least > len(items) + 1:
            raise OptionError(
                f"{pointer}/minProperties: more than one property that the schema does not name is not supported"
            )
        if not items and rest == NEVER:
            return Text("{}")
        bounds = (least if least > len(required) else 0, most)
        if not items and bounds == (0, None):
            return sequence(
                Text("{"), repeat(rest, 0, self.form.most_open_members, self.form.item_separator), Text("}")
            )
        others = None if rest == NEVER else rest
        if others is not None and self.form.most_open_members is not None and most is None:
            bounds = (bounds[0], len(items) + self.form.most_open_members)
        return sequence(Text("{"), Joined(tuple(items), self.form.item_separator, others, *bounds), Text("}"))

    def _matcher(self, pointer: str) -> Callable[[str, str], bool]:
        def matches(pattern: str, name: str) -> bool:
            try:
                narrow, wide = (_pattern(pattern, reading).matches(name) for reading in (False, True))
            except OptionError as error:
                raise OptionError(f"{pointer}/patternProperties: {error}") from None
            if narrow != wide:
                raise OptionError(f"{pointer}/patternProperties: dialects differ on whether {pattern!r} has {name!r}")
            return narrow

        return matches

    def _may_be_named(self, name: str, schemas: list[Schema], pointer: str) -> bool:
        if not schemas:
            return True
        texts = self.every([*schemas, {"type": "string"}], f"{pointer}/propertyNames", ())
        return not compile_bytes(intersection(texts, self.form.quoted(self.form.inside(Text(name))))).empty

    def _others(self, shapes: list[Any], names: list[Schema], named: list[str], pointer: str, refs: Refs) -> Expression:
        """One member that the schema does not name."""
        patterns = list(dict.fromkeys(pattern for _, shape, _ in shapes for pattern in shape))
        if len(patterns) > MAX_PATTERNS:
            raise OptionError(f"{pointer}/patternProperties: more than {MAX_PATTERNS} patterns are not supported")
        silent = named and not patterns and all(additional is True for _, _, additional in shapes)
        options = []
        for chosen in range(2 ** len(patterns)):
            met = [pattern for place, pattern in enumerate(patterns) if chosen >> place & 1]
            parts = []
            for _, of_pattern, additional in shapes:
                found = [part for pattern, part in of_pattern.items() if pattern in met]
                parts += found or [additional]
            if False in parts:
                continue
            if silent and self.form.open_depth < 0:
                continue
            if silent:
                value = any_value(self.form, self.form.open_depth)
            elif all(part is True for part in parts):
                value = any_value(self.form, self.form.max_depth - 1)
            else:
                value = self.every(parts, f"{pointer}/additionalProperties", refs)
            if value == NEVER:
                continue
            key = self._free_key(met, [pattern for pattern in patterns if pattern not in met], named, pointer)
            if names:
                key = intersection(key, self.every([*names, {"type": "string"}], f"{pointer}/propertyNames", refs))
            options.append(sequence(key, Text(self.form.key_separator), value))
        return union(options)

    def _free_key(self, met: list[str], unmet: list[str], named: list[str], pointer: str) -> Expression:
        if not met and not unmet and not named:
            return self.form.any_string
        try:
            matching = [self.form.inside(parse_search(pattern)) for pattern in met]
            removed = [self.form.inside(parse_search(pattern, True)) for pattern in unmet]
        except OptionError as error:
            raise OptionError(f"{pointer}/patternProperties: {error}") from None
        body = intersection(*matching) if matching else Repeat(self.form.character)
        removed += [self.form.inside(Text(name)) for name in named]
        return self.form.quoted(difference(body, union(removed)))


@cache
def _pattern(pattern: str, wide: bool) -> ByteAutomaton:
    return compile_bytes(parse_search(pattern, wide))
