"""Cases in the manner of the public JSON-Schema-Test-Suite for draft 2020-12, by keyword: a schema, values that are
valid under it, and values that are not. `jsonschema` is asked whether that is so."""

from typing import Any

Case = tuple[Any, list[Any], list[Any]]

_NODE = {"type": "object", "properties": {"v": {"type": "integer"}, "next": {"$ref": "#"}}, "required": ["v"]}

SUITE: dict[str, list[Case]] = {
    "additionalProperties": [
        (
            {"type": "object", "properties": {"a": {}}, "additionalProperties": False},
            [{}, {"a": 1}],
            [{"b": 1}, {"a": 1, "b": 2}],
        ),
        ({"type": "object", "additionalProperties": {"type": "boolean"}}, [{}, {"x": True}], [{"x": 1}]),
        (
            {"type": "object", "properties": {"a": {}}, "additionalProperties": {"type": "integer"}},
            [{"a": "s"}, {"b": 3}],
            [{"b": "s"}],
        ),
        ({"type": "object", "additionalProperties": True}, [{"x": 1, "y": None}], [[], 3]),
    ],
    "allOf": [
        ({"allOf": [{"type": "integer", "minimum": 3}, {"maximum": 5}]}, [3, 5], [2, 6]),
        (
            {
                "allOf": [
                    {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
                    {"properties": {"b": {"type": "string"}}, "required": ["b"]},
                ]
            },
            [{"a": 1, "b": "x"}],
            [{"a": 1}, {"b": "x"}],
        ),
        ({"type": "integer", "allOf": [True]}, [1], ["x"]),
        ({"allOf": [{"type": "integer"}, {"type": "string"}]}, [], [1, "x"]),
    ],
    "anyOf": [
        ({"anyOf": [{"type": "integer"}, {"type": "string", "minLength": 2}]}, [1, "ab"], ["a", 1.5, None]),
        ({"anyOf": [{"const": 1}, {"const": "1"}]}, [1, "1"], [2, "2"]),
        ({"type": "string", "anyOf": [{"maxLength": 2}, {"minLength": 4}]}, ["ab", "abcd"], ["abc", 3]),
    ],
    "boolean schemas": [
        ({"type": "object", "properties": {"a": True}, "required": ["a"]}, [{"a": None}], [{}]),
        ({"type": "object", "properties": {"a": False}}, [{}], [{"a": 1}]),
        ({"type": "array", "items": False}, [[]], [[1]]),
    ],
    "const": [
        ({"const": 2}, [2], [5, "2"]),
        ({"const": {"a": [1, None]}}, [{"a": [1, None]}], [{"a": [1]}, {}]),
        ({"const": "é\n"}, ["é\n"], ["é"]),
        ({"const": False}, [False], [0, [False]]),
    ],
    "contains": [
        ({"type": "array", "contains": {"minimum": 5}}, [[3, 5]], [[1]]),
        ({"type": "array", "contains": {"const": 1}, "minContains": 2}, [[1, 1]], [[1]]),
        ({"type": "array", "contains": {"const": 1}, "maxContains": 1}, [[1]], [[1, 1]]),
        (
            {
                "type": "array",
                "prefixItems": [{"type": "string"}, {"type": "integer"}],
                "items": {"enum": ["x", 5, 7]},
                "contains": {"type": "integer"},
                "minContains": 2,
                "maxContains": 2,
            },
            [["a", 1, 5], ["a", 1, "x", 7, "x"]],
            [["a", 1], ["a", 1, 5, 7], [1, 2], ["a", 5, 6]],
        ),
        (
            {
                "type": "array",
                "items": {"enum": [1, 2, "a"]},
                "contains": {"type": "integer"},
                "minContains": 2,
                "uniqueItems": True,
            },
            [[1, 2], [2, "a", 1]],
            [[1, "a"], [1, 1], [1, 2, 2]],
        ),
    ],
    "content": [({"type": "string", "contentEncoding": "base64"}, ["aGk="], [1])],
    "default": [
        ({"type": "object", "properties": {"a": {"type": "integer", "default": 7}}}, [{}, {"a": 1}], [{"a": "x"}])
    ],
    "dependentRequired": [({"type": "object", "dependentRequired": {"a": ["b"]}}, [{}], [{"a": 1}])],
    "dependentSchemas": [({"type": "object", "dependentSchemas": {"a": {"required": ["b"]}}}, [{}], [{"a": 1}])],
    "dynamicRef": [
        (
            {"$dynamicAnchor": "n", "type": "object", "properties": {"next": {"$dynamicRef": "#n"}, "v": {"const": 1}}},
            [{}, {"next": {"v": 1}}],
            [{"next": {"v": 2}}, {"next": 1}],
        ),
        (
            {
                "$id": "http://e.x/",
                "items": {"$dynamicRef": "#a"},
                "$defs": {"b": {"$dynamicAnchor": "a"}, "c": {"$id": "c", "$dynamicAnchor": "a"}},
            },
            [[1]],
            [],
        ),
        (  # the resource that everything begins in says what the other's items are
            {
                "$id": "http://e.x/",
                "$ref": "list",
                "$defs": {
                    "integer": {"$dynamicAnchor": "item", "type": "integer"},
                    "list": {
                        "$id": "list",
                        "type": "array",
                        "items": {"$dynamicRef": "#item"},
                        "$defs": {"any": {"$dynamicAnchor": "item"}},
                    },
                },
            },
            [[1, 2], []],
            [["a"]],
        ),
        (
            {
                "$id": "http://e.x/",
                "$ref": "list",
                "$defs": {
                    "integers": {"$id": "integers", "$dynamicAnchor": "item", "type": "integer"},
                    "list": {"$id": "list", "$dynamicAnchor": "item", "items": {"$dynamicRef": "#item"}},
                },
            },
            [[[]]],
            [],
        ),
        (  # neither is where everything begins: the first on each way decides
            {
                "$id": "http://e.x/",
                "type": "object",
                "properties": {"numbers": {"$ref": "numbers"}, "strings": {"$ref": "strings"}, "any": {"$ref": "list"}},
                "additionalProperties": False,
                "$defs": {
                    "numbers": {
                        "$id": "numbers",
                        "$defs": {"item": {"$dynamicAnchor": "item", "type": "integer"}},
                        "$ref": "list",
                    },
                    "strings": {
                        "$id": "strings",
                        "$defs": {"item": {"$dynamicAnchor": "item", "type": "string", "maxLength": 3}},
                        "$ref": "list",
                    },
                    "list": {
                        "$id": "list",
                        "type": "array",
                        "items": {"$dynamicRef": "#item"},
                        "$defs": {"any": {"$dynamicAnchor": "item"}},
                    },
                },
            },
            [{"numbers": [1, 2], "strings": ["a"], "any": [True]}, {"strings": []}],
            [{"numbers": ["a"]}, {"strings": [1]}, {"strings": ["abcd"]}],
        ),
        (  # a tree that forbids what its nodes leave open, extended from outside
            {
                "$id": "http://e.x/strict",
                "$ref": "tree",
                "$defs": {
                    "closed": {
                        "$id": "closed",
                        "$dynamicAnchor": "node",
                        "$ref": "tree",
                        "unevaluatedProperties": False,
                    },
                    "tree": {
                        "$id": "tree",
                        "$dynamicAnchor": "node",
                        "type": "object",
                        "properties": {"data": {"type": "integer"}, "down": {"$dynamicRef": "#node"}},
                    },
                },
                "properties": {"inner": {"$ref": "closed"}},
            },
            [{"data": 1, "down": {"data": 2, "x": 1}}, {"inner": {"data": 1, "down": {"data": 2}}}],
            [{"down": {"data": "a"}}, {"inner": {"x": 1}}, {"inner": {"down": {"x": 1}}}],
        ),
        (  # the same as 2019-09 says it
            {
                "$schema": "https://json-schema.org/draft/2019-09/schema",
                "$id": "http://e.x/",
                "type": "object",
                "properties": {"closed": {"$ref": "closed"}, "open": {"$ref": "#/$defs/tree"}},
                "additionalProperties": False,
                "$defs": {
                    "tree": {
                        "$id": "tree",
                        "$recursiveAnchor": True,
                        "type": "object",
                        "properties": {"down": {"$recursiveRef": "#"}},
                    },
                    "closed": {
                        "$id": "closed",
                        "$recursiveAnchor": True,
                        "$ref": "tree",
                        "unevaluatedProperties": False,
                    },
                },
            },
            [{"open": {"down": {"x": 1}}}, {"closed": {"down": {"down": {}}}}],
            [{"closed": {"x": 1}}, {"closed": {"down": {"x": 1}}}, {"open": {"down": 1}}],
        ),
    ],
    "enum": [
        ({"enum": [1, "a", None, [1, 2]]}, [1, "a", None, [1, 2]], [2, "b", [1]]),
        ({"enum": [6, {"k": False}]}, [6, {"k": False}], [{"k": 0}, 0]),
        ({"type": "string", "enum": ["x", 1]}, ["x"], [1]),
    ],
    "exclusiveMaximum": [({"type": "number", "exclusiveMaximum": 3}, [2.2, -1], [3, 3.5])],
    "exclusiveMinimum": [({"type": "number", "exclusiveMinimum": 1.1}, [1.2, 2], [1.1, 0.6])],
    "format of addresses": [
        *(
            ({"type": "string", "format": name}, valid, invalid)
            for name, valid, invalid in (
                ("uri", ["https://a.b/c?d#e", "urn:a:b", "file:///c", "mailto:a@b.c"], []),
                ("uri-reference", ["/a/b?c", "#d", "", "//h/p"], []),
                ("ipv6", ["::1", "2001:db8::7", "1:2:3:4:5:6:7:8", "::ffff:1.2.3.4"], ["1::2::3", "12345::", "::1::"]),
                ("regex", ["^a(b|c)*$", "[a-z]+?"], ["(", "[a"]),
                ("json-pointer", ["", "/a~0b/~1", "/"], []),
                ("duration", ["P1Y2M3D", "PT1H", "P2W"], []),
                ("idn-email", ["ä@b.de"], ["ä"]),
                ("uuid", ["2EB8AA08-aa98-11ea-b4aa-73b441d16380"], ["2eb8aa08"]),
            )
        ),
    ],
    "number notations": [
        ({"type": "number"}, [1.0, 1e30, 1e-8, 0.12345678901234567, 123456789012345678], ["1"]),
        ({"type": "integer"}, [1.0, 10**30, -2.0], [1.5]),
        ({"const": 2}, [2, 2.0], [2.5]),
        ({"type": "number", "minimum": -90, "maximum": 90}, [40.71277612345678, -90.0, 90], [90.1]),
        ({"type": "number", "not": {"const": 1000}}, [1, 1001, 999.5], [1000, 1000.0]),
    ],
    "keywords of other types": [
        ({"minLength": 2}, ["ab", 1, None, [1], {"a": 1}], ["a"]),
        ({"properties": {"a": {"type": "integer"}}}, [{"a": 1}, 1, "x", [], None], [{"a": "x"}]),
        ({"minimum": 3}, [3, "x", [], False], [2]),
    ],
    "format": [
        ({"type": "string", "format": "date"}, ["2026-02-28"], ["2026-02-30", "26-1-1"]),
        ({"type": "string", "format": "ipv4"}, ["192.168.0.1"], ["256.0.0.1", "1.2.3"]),
        ({"type": "string", "format": "uuid"}, ["2eb8aa08-aa98-11ea-b4aa-73b441d16380"], ["2eb8aa08"]),
        ({"type": "string", "format": "email"}, ["joe@example.com"], ["joe"]),
        ({"type": "string", "format": "ipv6"}, ["::1"], []),
        ({"type": "string", "format": "uri"}, ["http://a.b/c"], []),
    ],
    "if-then-else": [
        ({"if": {"type": "integer"}, "then": {"minimum": 3}, "else": {"type": "string"}}, [3, "x"], [2, 1.5])
    ],
    "items": [
        ({"type": "array", "items": {"type": "integer"}}, [[], [1, 2]], [[1, "x"], {}]),
        (
            {"type": "array", "items": {"type": "array", "items": {"type": "boolean"}, "maxItems": 1}},
            [[[]], [[True], []]],
            [[[1]]],
        ),
        (
            {"type": "array", "prefixItems": [{}, {}], "items": {"type": "integer"}},
            [["a", None, 3]],
            [["a", None, "b"]],
        ),
    ],
    "maxItems": [({"type": "array", "maxItems": 2}, [[], [1, 2]], [[1, 2, 3]])],
    "maxLength": [({"type": "string", "maxLength": 2}, ["", "é日"], ["abc"])],
    "maxProperties": [({"type": "object", "maxProperties": 1}, [{}], [{"a": 1, "b": 2}])],
    "maximum": [
        ({"type": "number", "maximum": 3.0}, [2.6, 3], [3.5]),
        ({"type": "integer", "maximum": -10}, [-10], [-9, 0]),
    ],
    "minItems": [({"type": "array", "minItems": 1}, [[1]], [[]])],
    "minLength": [({"type": "string", "minLength": 2}, ["ab", "日日"], ["a", "日"])],
    "minProperties": [
        ({"type": "object", "minProperties": 1}, [{"a": 1}], [{}]),
        (
            {"additionalProperties": {"type": "integer"}, "type": "object", "minProperties": 2},
            [{"foo": 1, "bar": 2}, {"": 1, "b": 2, "c": 3}],
            [{"a": 1}, {}],
        ),
        (
            {
                "properties": {"a": {}},
                "additionalProperties": {"type": "integer"},
                "type": "object",
                "minProperties": 4,
                "maxProperties": 4,
            },
            [{"a": 1, "b": 2, "c": 3, "d": 4}],
            [{"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}],
        ),
    ],
    "minimum": [
        ({"type": "number", "minimum": -1.5}, [-1.5, 0], [-1.6]),
        ({"type": "integer", "minimum": 100}, [100, 5000], [99]),
    ],
    "multipleOf": [
        ({"type": "integer", "multipleOf": 3}, [0, 9, -3], [1, 10]),
        ({"type": "number", "multipleOf": 0.5}, [1.5], [1.3]),
    ],
    "not of properties": [
        (
            {"type": "object", "not": {"properties": {"a": {}}, "additionalProperties": False}},
            [{"b": 1}, {"a": 1, "b": 2}],
            [{}, {"a": 1}],
        ),
        (
            {"type": "object", "not": {"patternProperties": {"^x": {"type": "integer"}}}},
            [{"x": "s"}, {"a": 1, "xy": None}],
            [{}, {"x": 1}, {"a": "s"}],
        ),
        (
            {"type": "object", "not": {"propertyNames": {"maxLength": 2}}},
            [{"abc": 1}, {"a": 1, "abc": 2}],
            [{}, {"ab": 1}],
        ),
        (
            {
                "oneOf": [
                    {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False},
                    {
                        "type": "object",
                        "properties": {"a": {"type": "integer"}, "b": {}},
                        "additionalProperties": False,
                    },
                ]
            },
            [{"a": 1, "b": 2}, {"b": 1}],
            [{}, {"a": 1}, {"c": 1}],
        ),
    ],
    "not": [({"not": {"type": "integer"}}, ["x"], [1])],
    "oneOf": [
        ({"oneOf": [{"type": "integer"}, {"type": "string"}]}, [1, "x"], [None, 1.5]),
        (
            {
                "oneOf": [
                    {
                        "type": "object",
                        "properties": {"k": {"const": "a"}},
                        "required": ["k"],
                        "additionalProperties": False,
                    },
                    {
                        "type": "object",
                        "properties": {"k": {"const": "b"}, "n": {"type": "integer"}},
                        "required": ["k"],
                        "additionalProperties": False,
                    },
                ]
            },
            [{"k": "a"}, {"k": "b", "n": 1}],
            [{"k": "c"}, {"k": "a", "n": 1}],
        ),
        ({"oneOf": [{"type": "number"}, {"type": "integer"}]}, [1.5], [1]),
    ],
    "pattern": [
        ({"type": "string", "pattern": "^a*$"}, ["", "aaa"], ["ab"]),
        ({"type": "string", "pattern": "b+"}, ["abba"], ["aaa"]),
        ({"type": "string", "pattern": "^\\d{3}-[A-F]$", "maxLength": 5}, ["123-A"], ["12-A", "123-G"]),
        ({"type": "string", "pattern": "^(?!a)"}, ["b"], ["a"]),
    ],
    "patternProperties": [
        ({"type": "object", "patternProperties": {"^f": {"type": "integer"}}}, [{"f": 1}], [{"f": "x"}])
    ],
    "prefixItems": [
        ({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}]}, [[1, "a"], [1]], [["a"], [1, 2]]),
        ({"type": "array", "prefixItems": [{"type": "integer"}], "items": False}, [[1], []], [[1, 2]]),
    ],
    "properties": [
        (
            {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}},
            [{"a": 1, "b": "x"}, {"b": "x"}],
            [{"a": "x"}],
        ),
        ({"type": "object", "properties": {'a"b': {"type": "null"}, "é": {}}}, [{'a"b': None}, {"é": 1}], [{'a"b': 1}]),
    ],
    "propertyNames": [({"type": "object", "propertyNames": {"maxLength": 3}}, [{"abc": 1}], [{"abcd": 1}])],
    "ref": [
        (
            {"type": "array", "items": {"$ref": "#/$defs/n"}, "$defs": {"n": {"type": "integer", "minimum": 0}}},
            [[0, 5]],
            [[-1]],
        ),
        (_NODE, [{"v": 1}, {"v": 1, "next": {"v": 2}}], [{"next": {"v": 1}}, {"v": 1, "next": {}}]),
        ({"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"type": "null"}}}, [None], [1]),
        (
            {
                "type": "object",
                "properties": {"a": {"$ref": "#/$defs/s", "maxLength": 2}},
                "$defs": {"s": {"type": "string"}},
            },
            [{"a": "ab"}],
            [{"a": "abc"}, {"a": 1}],
        ),
    ],
    "ref below a urn": [
        (
            {
                "properties": {"a": {"$id": "urn:x:y", "$ref": "#/$defs/b", "$defs": {"b": {"type": "integer"}}}},
                "$defs": {"b": {"type": "string"}},
                "additionalProperties": False,
            },
            [{"a": 1}],
            [{"a": "x"}],
        )
    ],
    "ref to an anchor": [({"$ref": "#foo", "$defs": {"A": {"$anchor": "foo", "type": "integer"}}}, [1], ["a"])],
    "ref to another document": [({"$ref": "other.json"}, [], [])],
    "required": [
        (
            {"type": "object", "properties": {"a": {}, "b": {}}, "required": ["b"]},
            [{"b": 1}, {"a": 1, "b": 2}],
            [{}, {"a": 1}],
        ),
        ({"type": "object", "required": ["x"]}, [{"x": 1}], [{}, {"y": 1}]),
    ],
    "type": [
        ({"type": "integer"}, [1, -7], [1.5, "1", None]),
        ({"type": "number"}, [1, 1.5], ["1"]),
        ({"type": "string"}, ["", 'é"\\'], [1]),
        ({"type": "boolean"}, [True, False], [0, None]),
        ({"type": "null"}, [None], [0, ""]),
        ({"type": "object"}, [{}, {"a": [1]}], [[], None]),
        ({"type": "array"}, [[], [1, "a"]], [{}, None]),
        ({"type": ["integer", "null"]}, [1, None], ["1"]),
    ],
    "unevaluatedItems": [
        ({"type": "array", "prefixItems": [{"type": "string"}], "unevaluatedItems": False}, [[], ["a"]], [["a", 1]]),
        (
            {
                "type": "array",
                "anyOf": [{"prefixItems": [{"const": 1}]}, {"prefixItems": [{}, {"const": 2}]}],
                "unevaluatedItems": {"type": "null"},
            },
            [[1], [1, 2], [1, None], [5, 2], [1, 2, None]],
            [[1, 2, 3], [5, 3], [1, 3]],
        ),
        (
            {"type": "array", "contains": {"const": 1}, "unevaluatedItems": {"const": 2}},
            [[1], [2, 1], [1, 2, 1]],
            [[2], [1, 3]],
        ),
    ],
    "unevaluatedProperties": [
        (
            {"type": "object", "allOf": [{"properties": {"a": {"type": "integer"}}}], "unevaluatedProperties": False},
            [{}, {"a": 1}],
            [{"a": 1, "b": 2}, {"b": 2}],
        ),
        (
            {
                "type": "object",
                "anyOf": [
                    {"properties": {"a": {"const": 1}}, "required": ["a"]},
                    {"properties": {"b": {"const": 2}}, "required": ["b"]},
                ],
                "unevaluatedProperties": {"type": "boolean"},
            },
            [{"a": 1}, {"b": 2}, {"a": 1, "b": 2}, {"a": 1, "c": True}],
            [{"a": 1, "c": 3}, {"a": 1, "b": 3}, {}],
        ),
        (
            {
                "type": "object",
                "if": {"properties": {"a": {"const": 1}}, "required": ["a"]},
                "then": {"properties": {"b": True}},
                "else": {"properties": {"c": True}},
                "unevaluatedProperties": False,
            },
            [{"a": 1, "b": 0}, {"c": 0}, {}],
            [{"a": 1, "c": 0}, {"b": 0}, {"a": 2}],
        ),
        (
            {
                "type": "object",
                "not": {"not": {"properties": {"a": {}}, "required": ["a"]}},
                "unevaluatedProperties": False,
            },
            [],
            [{"a": 1}, {}],
        ),
        (
            {"type": "object", "properties": {"a": {}}, "allOf": [{"unevaluatedProperties": False}]},
            [{}],
            [{"a": 1}],
        ),
        (
            {
                "type": "object",
                "dependentSchemas": {"a": {"properties": {"a": {}, "b": {}}}},
                "unevaluatedProperties": False,
            },
            [{"a": 1, "b": 2}, {}],
            [{"b": 2}],
        ),
    ],
    "uniqueItems": [
        ({"type": "array", "uniqueItems": True}, [[], [1], ["a"]], [[1, 1]]),
        (
            {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
            [["a", "b"], ["", "a"], ["\n", "n"], ["é", "e"]],
            [["a", "a"], ["", ""], ["é", "é"], ["\\", "\\"]],
        ),
        (
            {"type": "array", "items": {"type": "string"}, "uniqueItems": True, "minItems": 3},
            [["a", "b", "c"]],
            [["a", "b"]],
        ),
        (
            {"type": "array", "items": {"type": "integer"}, "uniqueItems": True},
            [[], [1], [10, 2, 3]],
            [[1, 1], [2, 1, 2]],
        ),
        (
            {
                "type": "array",
                "items": {"type": "object", "properties": {"name": {"type": "string"}, "n": {"type": "number"}}},
                "uniqueItems": True,
            },
            [[{"name": "a/1", "n": 1}, {"name": "a/2", "n": 1}], [{"n": 1}]],
            [[{"name": "a", "n": 1}, {"name": "a", "n": 1}], [{"n": 1}, {"n": 1}]],
        ),
        ({"type": "array", "uniqueItems": False}, [[1, 1]], [1]),
    ],
}
