"""Writes objects of a plain schema as texts.

Properties come in the order in which the schema names them, then others that are required, then any others.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from gesso.constraints.byte_table import ByteAutomaton
from gesso.constraints.bytes_automaton import compile_bytes
from gesso.constraints.expression import (
    EMPTY,
    NEVER,
    Expression,
    Joined,
    Repeat,
    Text,
    difference,
    intersection,
    repeat,
    sequence,
    union,
)
from gesso.constraints.json_keywords import Plain, of_property
from gesso.constraints.json_members import MAX_UNNAMED, different_members
from gesso.constraints.json_one_of import Refs
from gesso.constraints.json_places import Schema, escape_pointer
from gesso.constraints.json_text import any_value
from gesso.constraints.json_values import Values
from gesso.constraints.regex import parse_search
from gesso.errors import OptionError

MAX_PATTERNS = 5
"""`patternProperties` of one object."""


class Objects:
    """Holds the texts of the objects under plain schemas."""

    def __init__(self, values: Values) -> None:
        self.values, self.form = values, values.form

    def texts(self, schema: Plain, pointer: str, refs: Refs) -> Expression:
        """Returns the texts of all objects that are valid.

        Raises:
            OptionError: a keyword is not supported; it gives the JSON pointer.
        """
        found, named = self._all(schema, pointer, refs), named_properties(schema)
        return intersection(found, *(self._with(member, named, pointer, refs) for member in schema.get("some", ())))

    def _with(self, member: tuple[Any, ...], named: list[str], pointer: str, refs: Refs) -> Expression:
        """Objects that have a certain member among others. Of a key that comes twice the last value counts, so behind
        that member is none with such a key and another value, unless its key is one of `named`, which come once."""
        names, unmet, met, key_schema, value_schema = member
        key = self._free_key([] if met is None else [met], unmet, names, pointer)
        if key_schema is not True:
            told = self.values.every([key_schema, {"type": "string"}], f"{pointer}/propertyNames", refs)
            key = intersection(key, self.form.as_keys(told))
        separator = Text(self.form.key_separator)
        value = self.values.every([value_schema], f"{pointer}/additionalProperties", refs)
        anything = any_value(self.form, self.form.max_depth)
        other, comma = sequence(self.form.any_key, separator, anything), Text(self.form.item_separator)

        def with_key(key: Expression, behind: Expression) -> Expression:
            before = repeat(sequence(other, comma))
            return sequence(Text("{"), before, key, separator, value, repeat(sequence(comma, behind)), Text("}"))

        free = NEVER if key == self.form.any_key else difference(self.form.any_key, key)
        options = [with_key(key, union([sequence(key, separator, value), sequence(free, separator, anything)]))]
        if once := [self.form.key(name) for name in named if name not in names]:
            options.append(with_key(intersection(key, union(once)), other))
        return union(options)

    def _all(self, schema: Plain, pointer: str, refs: Refs) -> Expression:
        shapes = schema.get("shapes", [])
        required = schema.get("required", [])
        named = named_properties(schema)
        names = schema.get("names", [])
        least, most = int(schema.get("minProperties", 0)), schema.get("maxProperties")
        most = None if most is None else int(most)
        items = []
        for name in named:
            parts = [part for shape in shapes for part in of_property(shape, name, self._matcher(pointer))]
            value = NEVER
            if self._may_be_named(name, names, pointer):
                value = self.values.every(parts, f"{pointer}/properties/{escape_pointer(name)}", refs)
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
        if least > len(items) + MAX_UNNAMED:
            raise OptionError(
                f"{pointer}/minProperties: more than {MAX_UNNAMED} properties that the schema does not name are not "
                "supported"
            )
        if not items and rest == NEVER:
            return Text("{}")
        bounds = (least if least > len(required) else 0, most)
        if not items and bounds == (0, None):
            return sequence(Text("{"), repeat(rest, 0, None, self.form.item_separator), Text("}"))
        others = None if rest == NEVER else rest
        members: Expression = Joined(tuple(items), self.form.item_separator, others, *bounds)
        if others is not None and least > len(items) + 1:
            members = self._several(tuple(items), others, least, least - len(required), most)
        return sequence(Text("{"), members, Text("}"))

    def _several(
        self, items: tuple[tuple[Expression, bool], ...], rest: Expression, least: int, missing: int, most: int | None
    ) -> Expression:
        """Members of an object that has more of them than are named; up to `missing` others have to be there."""
        separator = self.form.item_separator
        found: list[Expression] = []
        for named in range(least - missing, len(items) + 1):
            count = least - named
            if count <= MAX_UNNAMED:
                others = different_members(rest, count, self.form)
                before = sequence(Joined(items, separator, None, named, named), Text(separator)) if named else EMPTY
                found.append(sequence(before, others))
        every = union(found)
        return every if most is None else intersection(every, Joined(items, separator, rest, 0, most))

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
        texts = self.values.every([*schemas, {"type": "string"}], f"{pointer}/propertyNames", ())
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
            if silent and self.values.open_depth < 0:
                continue
            if silent:
                value = any_value(self.form, self.values.open_depth)
            elif all(part is True for part in parts):
                value = any_value(self.form, self.form.max_depth - 1)
            else:
                value = self.values.every(parts, f"{pointer}/additionalProperties", refs)
            if value == NEVER:
                continue
            key = self._free_key(met, [pattern for pattern in patterns if pattern not in met], named, pointer)
            if names:
                told = self.values.every([*names, {"type": "string"}], f"{pointer}/propertyNames", refs)
                key = intersection(key, self.form.as_keys(told))
            options.append(sequence(key, Text(self.form.key_separator), value))
        return union(options)

    def _free_key(self, met: list[str], unmet: list[str], named: list[str], pointer: str) -> Expression:
        if not met and not unmet and not named:
            return self.form.any_key
        try:
            matching = [self.form.inside(parse_search(pattern)) for pattern in met]
            removed = [self.form.inside(parse_search(pattern, True)) for pattern in unmet]
        except OptionError as error:
            raise OptionError(f"{pointer}/patternProperties: {error}") from None
        body = intersection(*matching) if matching else Repeat(self.form.character)
        removed += [self.form.inside(Text(name)) for name in named]
        return self.form.as_keys(self.form.quoted(difference(body, union(removed))))


def named_properties(schema: Plain) -> list[str]:
    """Returns the properties that a schema names, in the order in which they are written; each comes once at most."""
    names = (name for shape in schema.get("shapes", ()) for name in shape[0])
    return list(dict.fromkeys([*names, *schema.get("required", ())]))


@cache
def _pattern(pattern: str, wide: bool) -> ByteAutomaton:
    return compile_bytes(parse_search(pattern, wide))
