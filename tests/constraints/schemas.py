"""JSON Schemas of every supported kind, by name."""

from typing import Any

from gesso.constraints.expression import Expression
from gesso.constraints.json_schema import schema_expression
from gesso.constraints.json_text import JsonForm

_POINT = {
    "type": "object",
    "properties": {"x": {"type": "number"}, "y": {"type": "number"}},
    "required": ["x", "y"],
    "additionalProperties": False,
}
_TREE = {
    "type": "object",
    "properties": {"value": {"type": "integer"}, "children": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
    "required": ["value"],
}


def _object(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _tagged(tag: str, **properties: Any) -> dict[str, Any]:
    return _object(["kind", *properties], kind={"const": tag}, **properties)


INTEGER: dict[str, Any] = {"type": "integer"}
NUMBER: dict[str, Any] = {"type": "number"}
STRING: dict[str, Any] = {"type": "string"}

SCHEMAS: dict[str, Any] = {
    "null": {"type": "null"},
    "boolean": {"type": "boolean", "title": "a title", "description": "of what", "default": True, "examples": [False]},
    "integer": INTEGER,
    "number": NUMBER,
    "string": STRING,
    "types": {"type": ["string", "null", "integer"]},
    "any": {},
    "true": True,
    "object": {"type": "object"},
    "array": {"type": "array"},
    # Numbers
    "byte": {"type": "integer", "minimum": 0, "maximum": 255},
    "signed": {"type": "integer", "minimum": -128, "exclusiveMaximum": 128},
    "negative": {"type": "integer", "exclusiveMaximum": 0},
    "at least": {"type": "integer", "minimum": 1_000_000_000_000_000_000},
    "odd bounds": {"type": "integer", "exclusiveMinimum": 1.5, "maximum": 98.5},
    "one integer": {"type": "integer", "minimum": 7, "maximum": 7},
    "sevens": {"type": "integer", "multipleOf": 7, "minimum": 100, "maximum": 9999},
    "even numbers": {"type": "number", "multipleOf": 2, "exclusiveMinimum": -10},
    "share": {"type": "number", "minimum": 0, "maximum": 1},
    "open share": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
    "range": {"type": "number", "minimum": -1.25, "exclusiveMaximum": 10.75},
    "below zero": {"type": "number", "maximum": -0.5, "minimum": -20.05},
    "only a bound": {"minimum": 3},
    "price": {"type": "number", "exclusiveMinimum": 0.009, "maximum": 99999.99},
    # Strings
    "short": {"type": "string", "maxLength": 5},
    "long": {"type": "string", "minLength": 12},
    "exact": {"type": "string", "minLength": 3, "maxLength": 3},
    "empty": {"type": "string", "maxLength": 0},
    "code": {"type": "string", "pattern": "^[A-Z]{2}-\\d{3}$"},
    "contains": {"type": "string", "pattern": "b+", "maxLength": 6},
    "starts": {"type": "string", "pattern": "^a.*"},
    "either": {"type": "string", "pattern": "^(yes|no)$|^maybe"},
    "escapes": {"type": "string", "pattern": '^["\\\\\n\t]{2,4}$'},
    "without": {"type": "string", "pattern": "^[^a-z\\s]+$", "maxLength": 8},
    "date": {"type": "string", "format": "date"},
    "time": {"type": "string", "format": "time"},
    "date-time": {"type": "string", "format": "date-time"},
    "uuid": {"type": "string", "format": "uuid"},
    "email": {"type": "string", "format": "email"},
    "hostname": {"type": "string", "format": "hostname"},
    "ipv4": {"type": "string", "format": "ipv4"},
    # Values
    "enum": {"enum": ["red", "green", "blue"]},
    "mixed enum": {"enum": [1, 1.5, "1", True, None, [1, 2], {"a": [], "b": {}}, 'é\n"\\']},
    "typed enum": {"type": ["integer", "null"], "enum": [1, "2", None, 3.5, 4]},
    "bounded enum": {"type": "integer", "enum": [1, 5, 10, 50], "minimum": 4, "maximum": 20},
    "string enum": {"enum": ["a", "ab", "abc"], "minLength": 2},
    "const": {"const": {"deep": [1, {"x": "y"}]}},
    # Arrays
    "integers": {"type": "array", "items": INTEGER},
    "some": {"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 4},
    "none": {"type": "array", "items": INTEGER, "maxItems": 0},
    "tuple": {"type": "array", "prefixItems": [STRING, INTEGER], "items": False, "minItems": 2},
    "loose tuple": {
        "type": "array",
        "prefixItems": [{"const": "a"}, INTEGER, {"type": "null"}],
        "items": {"type": "boolean"},
    },
    "bounded tuple": {"prefixItems": [INTEGER, STRING], "items": INTEGER, "minItems": 1, "maxItems": 4},
    "matrix": {
        "type": "array",
        "items": {"type": "array", "items": NUMBER, "minItems": 2, "maxItems": 2},
        "minItems": 1,
    },
    "never in it": {"type": "array", "items": False},
    # Objects
    "item": _object(["item", "price"], item=STRING, price=INTEGER, city=STRING),
    "all optional": _object([], a=INTEGER, b=STRING, c={"type": "null"}),
    "optional first": _object(["c"], a=INTEGER, b=STRING, c={"type": "null"}, d=INTEGER),
    "open": {"type": "object", "properties": {"a": INTEGER}},
    "closed and empty": {"type": "object", "additionalProperties": False},
    "odd names": _object(["a b", 'quo"te', "ü"], **{"a b": INTEGER, 'quo"te': INTEGER, "ü": {"type": "null"}}),
    "nested": _object(["at", "box"], at=_POINT, box=_object(["corners"], corners={"type": "array", "items": _POINT})),
    "map": {"type": "object", "additionalProperties": INTEGER},
    "map of maps": {"type": "object", "additionalProperties": {"type": "object", "additionalProperties": STRING}},
    "required only": {"type": "object", "required": ["anything"]},
    "required beside": {"properties": {"a": INTEGER}, "required": ["b"], "additionalProperties": {"type": "boolean"}},
    "never optional": _object(["a"], a=INTEGER, b=False),
    # References and combinations
    "reference": {"$ref": "#/$defs/point", "$defs": {"point": _POINT}},
    "references": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "https://example.com/line",
        "type": "object",
        "properties": {
            "from": {"$ref": "#/definitions/p"},
            "to": {"$ref": "#/definitions/p", "description": "its end"},
        },
        "required": ["from", "to"],
        "definitions": {"p": _POINT},
    },
    "escaped reference": {"$ref": "#/$defs/a~1b%25", "$defs": {"a/b%": INTEGER}},
    "tree": {"$ref": "#/$defs/tree", "$defs": {"tree": _TREE}},
    "list": {
        "anyOf": [{"type": "null"}, {"$ref": "#/$defs/node"}],
        "$defs": {"node": _object(["head", "tail"], head=INTEGER, tail={"$ref": "#"})},
    },
    "any of": {"anyOf": [INTEGER, {"type": "string", "maxLength": 3}, {"type": "null"}]},
    "any of objects": {"anyOf": [_object(["a"], a=INTEGER), _object(["a", "b"], a=STRING, b=INTEGER)]},
    "any of required": {
        "type": "object",
        "properties": {
            "mail": {"type": "string", "format": "email"},
            "phone": {"type": "string", "pattern": "^\\d{5,8}$"},
        },
        "anyOf": [{"required": ["mail"]}, {"required": ["phone"]}],
    },
    "one of types": {"oneOf": [INTEGER, STRING, {"type": "array", "items": INTEGER}]},
    "one of tags": {"oneOf": [_tagged("circle", r=NUMBER), _tagged("square", side=NUMBER), _tagged("none")]},
    "one of ranges": {"type": "integer", "oneOf": [{"maximum": 3}, {"minimum": 10, "maximum": 12}]},
    "one of keys": {"oneOf": [_object(["a"], a=INTEGER), _object(["b"], b=INTEGER)]},
    "one of values": {"oneOf": [{"enum": ["a", "b"]}, {"const": "c"}, {"const": 1}]},
    "one of references": {
        "type": "array",
        "items": {"oneOf": [{"$ref": "#/$defs/dog"}, {"$ref": "#/$defs/cat"}]},
        "$defs": {"dog": _tagged("dog", bark=STRING), "cat": _tagged("cat", lives={"type": "integer", "maximum": 9})},
    },
    "all of": {"allOf": [{"type": "integer", "minimum": 3}, {"maximum": 30}, {"type": "number", "multipleOf": 4}]},
    "all of objects": {
        "allOf": [
            {"type": "object", "properties": {"a": INTEGER, "b": NUMBER}, "required": ["a"]},
            {"properties": {"b": {"minimum": 0}, "c": STRING}, "required": ["c"]},
        ]
    },
    "all of closed": {
        "allOf": [_object(["a"], a=INTEGER, b=STRING), {"properties": {"a": {"minimum": 5}, "z": INTEGER}}]
    },
    "all of strings": {"type": "string", "allOf": [{"pattern": "a"}, {"pattern": "b"}, {"maxLength": 4}]},
    "reference and more": {"$ref": "#/$defs/n", "maximum": 20, "$defs": {"n": {"type": "integer", "minimum": 10}}},
    "tool call": _object(
        ["name", "arguments"],
        name={"enum": ["search", "open"]},
        arguments=_object(["query"], query=STRING, limit={"type": "integer", "minimum": 1, "maximum": 50}),
    ),
    "deep": _object(["a"], a=_object(["b"], b=_object(["c"], c={"type": "array", "items": _object(["d"], d={})}))),
}


def expression_of(schema: Any, form: JsonForm | None = None) -> Expression:
    """Returns the texts of a schema."""
    return schema_expression(schema, form)[0]
