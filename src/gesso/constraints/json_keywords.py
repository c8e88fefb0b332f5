"""Which keywords of JSON Schema are read, what their values must be, and how the schemas of an `allOf` become one.

A *plain* schema is a dict without `$ref`, `allOf`, `anyOf`, `oneOf`, annotations and `const` (which is an `enum` of
one); its `pattern` is a list. Its subschemas are as they were written.
"""

import json
from collections.abc import Callable
from decimal import Decimal
from math import isfinite, lcm
from typing import Any

from gesso.constraints.json_formats import FORMATS
from gesso.errors import OptionError

ANNOTATIONS = frozenset(
    ("title", "description", "default", "examples", "$schema", "$id", "$comment", "$anchor", "deprecated", "readOnly",
     "writeOnly", "$defs", "definitions")
)  # fmt: skip
"""Say nothing about what is valid."""
COMBINATORS = frozenset(("$ref", "allOf", "anyOf", "oneOf"))
TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")
TYPES_OF_KEYWORD = {
    "properties": "object", "required": "object", "additionalProperties": "object",
    "items": "array", "prefixItems": "array", "minItems": "array", "maxItems": "array", "uniqueItems": "array",
    "minLength": "string", "maxLength": "string", "pattern": "string", "format": "string",
    "minimum": "number", "maximum": "number", "exclusiveMinimum": "number", "exclusiveMaximum": "number",
    "multipleOf": "number",
}  # fmt: skip
"""The type of value a keyword speaks of; it lets every value of another type pass."""

Schema = Any
"""A dict or a bool, once it is checked."""
Plain = dict[str, Any]


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError):
        return False
    return True


def _is_count(value: Any) -> bool:
    return _is_number(value) and value >= 0 and value == int(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _is_schema(value: Any) -> bool:
    return isinstance(value, dict | bool)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_schemas(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_schema, value))


_VALUES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "$ref": (lambda value: isinstance(value, str), "text"),
    "type": (
        lambda value: value in TYPES if isinstance(value, str) else _is_texts(value) and set(value) <= {*TYPES},
        f"one or several of {', '.join(TYPES)}",
    ),
    "enum": (lambda value: isinstance(value, list) and _is_json(value), "a list of JSON values"),
    "const": (_is_json, "a JSON value"),
    "properties": (lambda value: isinstance(value, dict) and all(map(_is_schema, value.values())), "schemas by name"),
    "required": (_is_texts, "a list of names"),
    **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), (_is_schemas, "a list of schemas")),
    **dict.fromkeys(("items", "additionalProperties"), (_is_schema, "a schema")),
    **dict.fromkeys(("minItems", "maxItems", "minLength", "maxLength"), (_is_count, "a whole number of at least 0")),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), (_is_number, "a number")),
    "multipleOf": (
        lambda value: _is_count(value) and 1 <= value <= 1000, "a whole number from 1 to 1000 to be supported",
    ),
    "uniqueItems": (lambda value: value is False, "false: that items differ is not supported"),
    "pattern": (lambda value: isinstance(value, str), "a regular expression"),
    "format": (
        lambda value: isinstance(value, str) and value in FORMATS, f"one of {', '.join(FORMATS)} to be supported",
    ),
}  # fmt: skip


def check(schema: Schema, pointer: str) -> None:
    """Refuse what is not supported in one schema; not in those inside it.

    Raises:
        OptionError: a keyword is unknown, unsupported or has an impossible value; it gives the JSON pointer.
    """
    if not _is_schema(schema):
        raise OptionError(f"{pointer}: a schema must be an object, true or false, not {schema!r:.60}")
    for keyword in () if isinstance(schema, bool) else schema:
        place = f"{pointer}/{escape_pointer(str(keyword))}"
        if keyword in ANNOTATIONS:
            continue
        if keyword not in _VALUES:
            raise OptionError(f"{place}: this keyword is not supported")
        fits, what = _VALUES[keyword]
        if not fits(schema[keyword]):
            raise OptionError(f"{place}: must be {what}, not {schema[keyword]!r:.60}")


def escape_pointer(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def plain(schema: dict[str, Any]) -> Plain:
    """A checked schema without its annotations and combinators."""
    kept = {key: value for key, value in schema.items() if key not in ANNOTATIONS | COMBINATORS}
    if "const" in kept:
        const = kept.pop("const")
        kept["enum"] = [v for v in kept.get("enum", [const]) if same(v, const)]
    if "pattern" in kept:
        kept["pattern"] = [kept["pattern"]]
    return kept


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal: 1 is 1.0, but not true."""
    if _is_number(one) and _is_number(other):
        return bool(one == other)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and bool(one == other)


def type_of(value: Any) -> str:
    """The narrowest type of a JSON value."""
    if _is_number(value):
        return "integer" if value == int(value) else "number"
    kinds = {bool: "boolean", str: "string", list: "array", dict: "object"}
    return kinds.get(type(value), "null")


def types(schema: Plain) -> frozenset[str]:
    """The types a schema allows; `number` implies `integer`, which is then listed too."""
    declared = schema.get("type", TYPES)
    names = frozenset((declared,) if isinstance(declared, str) else declared)
    return names | {"integer"} if "number" in names else names


def merge(one: Plain, other: Plain, pointer: str) -> Plain:
    """A plain schema for what both allow.

    Raises:
        OptionError: they cannot be put in one.
    """
    merged = one | other
    shared = (one.keys() & other.keys()) - {"additionalProperties"}
    of_items = {"items", "prefixItems"}
    if "prefixItems" in merged and of_items & one.keys() and of_items & other.keys():
        raise OptionError(f"{pointer}: prefixItems together with another schema's items is not supported")
    for key in sorted(shared):
        first, second = one[key], other[key]
        if key == "type":
            both = types(one) & types(other)
            merged[key] = sorted(both - {"integer"} if "number" in both else both, key=TYPES.index)
        elif key == "enum":
            merged[key] = [value for value in first if any(same(value, v) for v in second)]
        elif key in {"required", "pattern"}:
            merged[key] = list(dict.fromkeys([*first, *second]))
        elif key in {"minItems", "minLength", "minimum", "exclusiveMinimum"}:
            merged[key] = max(first, second)
        elif key in {"maxItems", "maxLength", "maximum", "exclusiveMaximum"}:
            merged[key] = min(first, second)
        elif key == "multipleOf":
            merged[key] = lcm(int(first), int(second))
        elif key == "items":
            merged[key] = {"allOf": [first, second]}
        elif key == "format" and first != second:
            raise OptionError(f"{pointer}: the formats {first} and {second} at once are not supported")
    return merged | _merge_objects(one, other)


def _merge_objects(one: Plain, other: Plain) -> Plain:
    merged: Plain = {}
    if "properties" in one or "properties" in other:
        first, second = one.get("properties", {}), other.get("properties", {})
        merged["properties"] = {
            name: {"allOf": [*_of_property(one, name), *_of_property(other, name)]} for name in {**first, **second}
        }
    rest = [schema["additionalProperties"] for schema in (one, other) if "additionalProperties" in schema]
    if rest:
        merged["additionalProperties"] = rest[0] if len(rest) == 1 else False if False in rest else {"allOf": rest}
    return merged


def _of_property(schema: Plain, name: str) -> list[Schema]:
    """What a schema says of one property: at most one schema."""
    if name in schema.get("properties", {}):
        return [schema["properties"][name]]
    return [schema["additionalProperties"]] if "additionalProperties" in schema else [True]


def disjoint(one: Plain, other: Plain, apart: Callable[[Schema, Schema], bool]) -> bool:
    """Whether no value is valid under both, as far as that is easily proved.

    Args:
        one, other: plain schemas.
        apart: the same question of two subschemas.
    """
    if "enum" in one and "enum" in other:
        return not any(same(a, b) for a in one["enum"] for b in other["enum"])
    first, second = _possible_types(one), _possible_types(other)
    both = first & second
    if both == {"object"}:
        return _disjoint_objects(one, other, apart) or _disjoint_objects(other, one, apart)
    if both and both <= {"integer", "number"}:
        return _below(one, other) or _below(other, one)
    return not both


def _possible_types(schema: Plain) -> frozenset[str]:
    allowed = types(schema)
    if "enum" in schema:
        found = {type_of(value) for value in schema["enum"]}
        # An integer is a number too, whichever of the two the other schema names.
        allowed = frozenset(found | ({"number"} if "integer" in found else set())) & (allowed | {"integer"})
    return allowed


def _disjoint_objects(one: Plain, other: Plain, apart: Callable[[Schema, Schema], bool]) -> bool:
    first, second = one.get("properties", {}), other.get("properties", {})
    for name in one.get("required", []):
        if name not in second and other.get("additionalProperties") is False:
            return True
        if name in first and name in second and apart(first[name], second[name]):
            return True
    return False


def _below(one: Plain, other: Plain) -> bool:
    tops = [(one[key], key == "exclusiveMaximum") for key in ("maximum", "exclusiveMaximum") if key in one]
    bottoms = [(other[key], key == "exclusiveMinimum") for key in ("minimum", "exclusiveMinimum") if key in other]
    return any(top < bottom or (top == bottom and (a or b)) for top, a in tops for bottom, b in bottoms)


def decimal(value: float) -> Decimal:
    """A number of a schema as it is written."""
    return Decimal(json.dumps(value))
