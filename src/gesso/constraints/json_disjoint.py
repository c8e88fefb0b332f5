"""Proves that no value is valid under both of two plain schemas, where that is easily seen."""

from collections.abc import Callable
from functools import cache
from itertools import product
from typing import Any

from gesso.constraints.bytes_automaton import compile_bytes
from gesso.constraints.json_formats import formats_apart, may_have_format
from gesso.constraints.json_keywords import Plain, all_hashed, hashed, type_of, types
from gesso.constraints.json_places import Schema
from gesso.constraints.regex import parse_search
from gesso.errors import OptionError

Apart = Callable[[Schema, Schema], bool]
"""Whether no value is valid under both of two subschemas, as far as that is proved."""


def disjoint(one: Plain, other: Plain, apart: Apart) -> bool:
    """Tells whether no value is valid under both, as far as that is easily proved.

    Args:
        one, other: plain schemas.
        apart: the same question of two subschemas.
    """
    allowed = [_may_allow(schema) for schema in (one, other) if "enum" in one or "enum" in other]
    for schema in (one, other):
        if "enum" in schema and not any(all(allows(value) for allows in allowed) for value in schema["enum"]):
            return True
    both = _possible_types(one) & _possible_types(other)
    if both == {"object"}:
        return _disjoint_objects(one, other, apart) or _disjoint_objects(other, one, apart)
    if both and both <= {"integer", "number"}:
        return _below(one, other) or _below(other, one)
    if both in ({"string"}, {"array"}):
        what = "Length" if both == {"string"} else "Items"
        sizes = [(schema.get(f"min{what}", 0), schema.get(f"max{what}")) for schema in (one, other)]
        formats = product(one.get("format", ()), other.get("format", ())) if both == {"string"} else ()
        return any(top is not None and top < low for (_, top), (low, _) in (sizes, sizes[::-1])) or any(
            formats_apart(first, second) for first, second in formats
        )
    return not both


def _may_allow(schema: Plain) -> Callable[[Any], bool]:
    """Tells of a value whether it may be valid: whether it is not certain that it is not."""
    listed = all_hashed(schema["enum"]) if "enum" in schema else None
    excluded = all_hashed(schema.get("notEnum", ()))

    def allows(value: Any) -> bool:
        told = hashed(value)
        return (listed is None or told in listed) and told not in excluded and not _fails(value, schema)

    return allows


def _fails(value: Any, schema: Plain) -> bool:
    """Whether it is certain that a value is not valid, whatever is listed."""
    kind = type_of(value)
    if kind not in types(schema):
        return True
    if kind == "string":
        least, most = schema.get("minLength", 0), schema.get("maxLength", len(value))
        if not least <= len(value) <= most or not all(
            may_have_format(value, name) for name in schema.get("format", ())
        ):
            return True
        return any(holds and not _may_match(pattern, value) for pattern, holds in schema.get("pattern", ()))
    if kind in ("integer", "number"):
        point: Plain = {"minimum": value, "maximum": value}
        return _below(point, schema) or _below(schema, point)
    return False


@cache
def _may_match(pattern: str, text: str) -> bool:
    try:
        return compile_bytes(parse_search(pattern, wide=True)).matches(text)
    except OptionError:
        return True  # what cannot be read is refused where it is written


def _possible_types(schema: Plain) -> frozenset[str]:
    allowed = types(schema)
    if "enum" in schema:
        found = {type_of(value) for value in schema["enum"]}
        # An integer is a number too, whichever of the two the other schema names.
        allowed = frozenset(found | ({"number"} if "integer" in found else set())) & (allowed | {"integer"})
    return allowed


def _disjoint_objects(one: Plain, other: Plain, apart: Apart) -> bool:
    """Whether no object has all that `one` requires and is valid under both."""
    required = dict.fromkeys(one.get("required", ()))
    if len(required) > other.get("maxProperties", len(required)):
        return True
    for name in required:
        of_one, of_other = of_property(one, name), of_property(other, name)
        if False in of_other or (of_one and of_other and apart(_all(of_one), _all(of_other))):
            return True
    return False


def of_property(schema: Plain, name: str) -> list[Schema]:
    """Returns what a plain schema certainly says of a property's value."""
    found = []
    for properties, patterns, additional in schema.get("shapes", ()):
        if name in properties:
            found.append(properties[name])
        elif not patterns:
            found.append(additional)
    return [part for part in found if part not in (True, {})]


def _all(schemas: list[Schema]) -> Schema:
    return schemas[0] if len(schemas) == 1 else {"allOf": schemas}


def _below(one: Plain, other: Plain) -> bool:
    tops = [(one[key], key == "exclusiveMaximum") for key in ("maximum", "exclusiveMaximum") if key in one]
    bottoms = [(other[key], key == "exclusiveMinimum") for key in ("minimum", "exclusiveMinimum") if key in other]
    return any(top < bottom or (top == bottom and (a or b)) for top, a in tops for bottom, b in bottoms)
