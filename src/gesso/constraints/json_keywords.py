"""Says which keywords of JSON Schema are read, what their values must be, and what two schemas say together.

A *plain* schema is a dict that says of a value what it must be without references and alternatives. What several
schemas can say of one value stands in lists: `pattern` and `multipleOf` (each with whether it must hold), `enum` (one
list of values), `notEnum`, `format`, `notFormat`, `shapes` (of objects: `properties`, `patternProperties`,
`additionalProperties`), `names` (`propertyNames`), `some` (that there is a property: names and patterns it has not, a
pattern it has, schemas of its name and value), `tuples` (of arrays: `prefixItems`, `items`) and `contains` (schema,
least, most). Subschemas are as they were written. `evaluated` and `evaluatedItems` list what its parts have a say in,
for `unevaluated...`.
"""

import json
from collections.abc import Callable, Hashable, Iterable
from decimal import Decimal
from math import isfinite
from typing import Any

from gesso.constraints.json_places import Schema, escape_pointer
from gesso.constraints.json_text import TYPES
from gesso.constraints.placeholders import has_half_characters
from gesso.errors import OptionError

ANNOTATIONS = frozenset(
    ("title", "description", "default", "examples", "$schema", "$id", "id", "$comment", "$anchor", "$dynamicAnchor",
     "$recursiveAnchor", "$vocabulary", "deprecated", "readOnly", "writeOnly", "$defs", "definitions",
     "contentEncoding", "contentMediaType", "contentSchema")
)  # fmt: skip
"""Say nothing about what is valid."""
REFERENCES = frozenset(("$ref", "$dynamicRef", "$recursiveRef"))
TYPE_OF_KEYWORD = {
    **dict.fromkeys(("required", "minProperties", "maxProperties", "shapes", "names", "some"), "object"),
    **dict.fromkeys(("minItems", "maxItems", "uniqueItems", "tuples", "contains"), "array"),
    **dict.fromkeys(("minLength", "maxLength", "pattern", "format", "notFormat"), "string"),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), "number"),
}
"""The type of value that a keyword of a plain schema speaks of; it lets every value of another type pass."""
LOWER_BOUNDS = frozenset(("minItems", "minLength", "minProperties", "minimum", "exclusiveMinimum"))
UPPER_BOUNDS = frozenset(("maxItems", "maxLength", "maxProperties", "maximum", "exclusiveMaximum"))

Plain = dict[str, Any]


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def _is_count(value: Any) -> bool:
    return _is_number(value) and value >= 0 and value == int(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _is_schema(value: Any) -> bool:
    return isinstance(value, dict | bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and not has_half_characters(value)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_schemas(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_schema, value))


def _is_map(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_text, value)) and all(map(_is_schema, value.values()))


_VALUES: dict[str, tuple[Callable[[Any], bool], str]] = {
    **dict.fromkeys(("$ref", "$dynamicRef", "$recursiveRef"), (lambda value: isinstance(value, str), "text")),
    "type": (
        lambda value: value in TYPES if isinstance(value, str) else _is_texts(value) and set(value) <= {*TYPES},
        f"one or several of {', '.join(TYPES)}",
    ),
    "enum": (lambda value: isinstance(value, list) and _is_json(value), "a list of JSON values"),
    "const": (_is_json, "a JSON value"),
    **dict.fromkeys(("properties", "patternProperties", "dependentSchemas"), (_is_map, "schemas by name")),
    "dependentRequired": (
        lambda value: isinstance(value, dict) and all(map(_is_text, value)) and all(map(_is_texts, value.values())),
        "lists of names by name",
    ),
    "required": (_is_texts, "a list of names"),
    **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), (_is_schemas, "a list of schemas")),
    **dict.fromkeys(
        ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames",
         "unevaluatedItems", "unevaluatedProperties"),
        (_is_schema, "a schema"),
    ),
    **dict.fromkeys(
        ("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties", "minContains",
         "maxContains"),
        (_is_count, "a whole number of at least 0"),
    ),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), (_is_number, "a number")),
    "multipleOf": (lambda value: _is_number(value) and value > 0, "a number above 0"),
    "uniqueItems": (lambda value: isinstance(value, bool), "true or false"),
    "pattern": (lambda value: isinstance(value, str), "a regular expression"),
    "format": (lambda value: isinstance(value, str), "the name of a format"),
}  # fmt: skip


def check(schema: Schema, pointer: str) -> None:
    """Refuses what is malformed or not supported in one schema of draft 2020-12; not in those inside it.

    Raises:
        OptionError: a keyword is unsupported or has an impossible value; it gives the JSON pointer.
    """
    if not _is_schema(schema):
        raise OptionError(f"{pointer}: a schema must be an object, true or false, not {schema!r:.60}")
    for keyword in () if isinstance(schema, bool) else schema:
        place = f"{pointer}/{escape_pointer(str(keyword))}"
        if keyword in _VALUES:
            fits, what = _VALUES[keyword]
            if not fits(schema[keyword]):
                raise OptionError(f"{place}: must be {what}, not {schema[keyword]!r:.60}")


def plain(schema: dict[str, Any]) -> Plain:
    """Returns a checked schema without its annotations and combinators."""
    kept: Plain = {}
    for key in ("type", "required", "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties",
                "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):  # fmt: skip
        if key in schema:
            kept[key] = schema[key]
    if "enum" in schema or "const" in schema:
        values = schema.get("enum", [schema.get("const")])
        kept["enum"] = [v for v in values if "const" not in schema or same(v, schema["const"])]
    if "pattern" in schema:
        kept["pattern"] = [(schema["pattern"], True)]
    if "format" in schema:
        kept["format"] = [schema["format"]]
    if "multipleOf" in schema:
        kept["multipleOf"] = [(decimal(schema["multipleOf"]), True)]
    if schema.get("uniqueItems"):
        kept["uniqueItems"] = True
    shape = (
        schema.get("properties", {}),
        schema.get("patternProperties", {}),
        schema.get("additionalProperties", True),
    )
    if shape != ({}, {}, True):
        kept["shapes"] = [shape]
    if schema.get("propertyNames", True) is not True:
        kept["names"] = [schema["propertyNames"]]
    if schema.get("prefixItems") or schema.get("items", True) is not True:
        kept["tuples"] = [(schema.get("prefixItems", []), schema.get("items", True))]
    if "contains" in schema:
        least, most = int(schema.get("minContains", 1)), schema.get("maxContains")
        if least or most is not None:
            kept["contains"] = [(schema["contains"], least, None if most is None else int(most))]
    return kept


def same(one: Any, other: Any) -> bool:
    """Tells whether two JSON values, or two parts of plain schemas, are equal: 1 is 1.0, but not true."""
    if one is other:
        return True
    if _is_number(one) and _is_number(other):
        return bool(one == other)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and bool(one == other)


def hashed(value: Any) -> Hashable:
    """Returns what of two JSON values is equal exactly where `same` says that they are."""
    if isinstance(value, bool):
        return ("boolean", value)
    if isinstance(value, list):
        return ("array", tuple(map(hashed, value)))
    if isinstance(value, dict):
        return ("object", frozenset((key, hashed(part)) for key, part in value.items()))
    scalar: Hashable = value
    return scalar


def all_hashed(values: Iterable[Any]) -> frozenset[Hashable]:
    """Returns the values of an `enum` as a set, in which it is quickly found whether it holds one (see `hashed`)."""
    return frozenset(map(hashed, values))


def _holds(parts: list[Any], part: Any) -> bool:
    # What Python calls equal is quickly found, but may be 1 and true.
    return any(part is other or (part == other and same(part, other)) for other in parts)


def type_of(value: Any) -> str:
    """Returns the narrowest type of a JSON value."""
    if _is_number(value):
        return "integer" if value == int(value) else "number"
    kinds = ((bool, "boolean"), (str, "string"), (list, "array"), (dict, "object"))
    # Frozen lists and dictionaries, of a request's options, are of these types too.
    return next((name for kind, name in kinds if isinstance(value, kind)), "null")


def types(schema: Plain) -> frozenset[str]:
    """Returns the types a schema allows; `number` implies `integer`, which is then listed too."""
    declared = schema.get("type", TYPES)
    names = frozenset((declared,) if isinstance(declared, str) else declared)
    return names | {"integer"} if "number" in names else names


def merge(one: Plain, other: Plain) -> Plain:
    """Returns a plain schema for what both allow."""
    merged = one | other
    for key in one.keys() & other.keys():
        first, second = one[key], other[key]
        if key == "type":
            both = types(one) & types(other)
            merged[key] = sorted(both - {"integer"} if "number" in both else both, key=TYPES.index)
        elif key == "enum":
            listed = all_hashed(second)
            merged[key] = [value for value in first if hashed(value) in listed]
        elif key == "required":
            merged[key] = list(dict.fromkeys([*first, *second]))
        elif key in LOWER_BOUNDS:
            merged[key] = max(first, second)
        elif key in UPPER_BOUNDS:
            merged[key] = min(first, second)
        elif isinstance(first, list):
            merged[key] = first + [part for part in second if not _holds(first, part)]
    return merged


def says_more(one: Plain, other: Plain) -> bool:
    """Tells whether what both allow is written as the one already is: each keyword of the other adds nothing to it."""
    if not other.keys() <= one.keys():
        return False
    for key, second in other.items():
        first = one[key]
        if key == "type":
            adds = first != second and not types(one) <= types(other)
        elif key == "enum":
            adds = not all_hashed(first) <= all_hashed(second)
        elif key == "required":
            adds = list(dict.fromkeys([*first, *second])) != first
        elif key in LOWER_BOUNDS:
            adds = second > first
        elif key in UPPER_BOUNDS:
            adds = second < first
        elif isinstance(first, list):
            adds = not all(_holds(first, part) for part in second)
        else:
            adds = not same(first, second)
        if adds:
            return False
    return True


def of_property(shape: tuple[Any, Any, Any], name: str, matches: Callable[[str, str], bool]) -> list[Schema]:
    """Says what one shape says of the value of a property."""
    properties, patterns, additional = shape
    found = [properties[name]] if name in properties else []
    found += [part for pattern, part in patterns.items() if matches(pattern, name)]
    return found or [additional]


def decimal(value: float) -> Decimal:
    """Returns a number of a schema as it is written."""
    return Decimal(json.dumps(value))
