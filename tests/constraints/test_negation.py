"""Schemas made at random of everything that can hold or not hold, against jsonschema: nothing invalid is taken."""

import json
import random
from typing import Any

import jsonschema
import pytest
from thorough import cases

from constraints.schemas import expression_of
from gesso.constraints.budget import Budget, within
from gesso.constraints.bytes_automaton import compile_bytes
from gesso.errors import OptionError

VALUES: list[Any] = [
    None, True, False, 0, 1, 2, 3, 6, 7, -1, 0.5, 1.5, 2.25, "", "a", "b", "ab", "abc", "x-1", [], [1], [1, 2], ["a"],
    [1, "a"], [None, 3, 3], [1, 1, 2], {}, {"a": 1}, {"b": "x"}, {"a": 1, "b": "ab"}, {"a": "a", "b": 2}, {"c": 3},
    {"a": 1, "c": True}, {"a": 1, "b": 2, "c": 3}, {"b": 1, "zz": "a"}, {"zz": 1}, {"za": "a", "zb": 2}, [[], {}],
    [{"a": 1}],
]  # fmt: skip


def make_schema(generator: random.Random, depth: int) -> Any:
    def inner() -> Any:
        return make_schema(generator, depth - 1)

    leaves: list[Any] = [
        {"type": "integer"}, {"type": "number"}, {"type": "string"}, {"type": ["array", "null"]}, {"type": "object"},
        {"minimum": 2}, {"exclusiveMaximum": 2}, {"multipleOf": 3}, {"multipleOf": 0.5}, {"minLength": 2},
        {"maxLength": 1},         {"pattern": "^a"}, {"pattern": "b$"}, {"const": 1},
        {"enum": ["a", 2, None]}, {"required": ["a"]},        {"minItems": 2},         {"maxItems": 1},
        {"minProperties": 1}, {"maxProperties": 1},
        {"dependentRequired": {"a": ["b"]}}, True, False,        {"enum": [True, {}, []]}, {"type": "boolean"},
    ]  # fmt: skip
    if depth == 0:
        return generator.choice(leaves)
    kind = generator.choice(
        ("leaf", "not", "if", "allOf", "anyOf", "oneOf", "properties", "items", "contains", "object")
    )
    match kind:
        case "not":
            return {"not": inner()}
        case "if":
            return {"if": inner(), "then": inner(), "else": inner()}
        case "allOf" | "anyOf" | "oneOf":
            return {kind: [inner() for _ in range(generator.randint(1, 3))]}
        case "properties":
            return {"type": "object", "properties": {"a": inner(), "b": inner()}, "required": generator.sample("ab", 1)}
        case "items":
            return {"type": "array", "items": inner(), "prefixItems": [inner()]}
        case "contains":
            return {"contains": inner(), "maxContains": 2, "minContains": generator.randint(0, 2)}
        case "object":
            return {
                "patternProperties": {"^z": inner()},
                "additionalProperties": inner(),
                "propertyNames": {"maxLength": 2},
                "properties": {"a": inner()},
            }
        case _:
            first, second = generator.choice(leaves), generator.choice(leaves)
            return {**first, **second} if isinstance(first, dict) and isinstance(second, dict) else first


@pytest.mark.parametrize("part", range(6))
def test_what_is_taken_is_valid(part: int) -> None:
    generator = random.Random(part)
    held = taken = valid = 0
    for _ in range(cases(5, 400)):
        schema = make_schema(generator, 2)
        validator = jsonschema.Draft202012Validator(schema)
        try:
            with within(Budget(max_seconds=1.0)):
                automaton = compile_bytes(expression_of(schema))
        except OptionError:
            continue
        held += 1
        for value in VALUES:
            is_valid = bool(validator.is_valid(value))
            accepted = automaton.matches(json.dumps(value))
            assert is_valid or not accepted, (schema, value)
            taken += accepted
            valid += is_valid
    assert held
    assert taken


@pytest.mark.parametrize(
    ("schema", "inside", "outside"),
    [
        ({"type": "string", "not": {"pattern": "^a"}}, ['"b"', '""'], ['"a"', '"ab"']),
        ({"type": "integer", "not": {"enum": [1, 2]}}, ["3", "0"], ["1", "2"]),
        ({"type": "number", "not": {"const": 0}}, ["1", "0.5"], ["0", "0.0"]),
        ({"type": "number", "not": {"type": "integer"}}, ["1.5"], ["1", "1.0", "1.00"]),
        ({"type": "number", "not": {"multipleOf": 0.5}}, ["0.3", "1.25"], ["0.5", "1", "2.50"]),
        (
            {"type": "object", "properties": {"a": {}, "b": {}}, "not": {"required": ["a", "b"]}},
            ["{}", '{"a": 1}', '{"b": 1}'],
            ['{"a": 1, "b": 1}'],
        ),
        (
            {"type": "object", "properties": {"k": {"enum": ["x", "y"]}, "n": {"type": "integer"}}, "required": ["k"],
             "if": {"properties": {"k": {"const": "x"}}}, "then": {"required": ["n"]}},
            ['{"k": "y"}', '{"k": "x", "n": 1}', '{"k": "y", "n": 1}'],
            ['{"k": "x"}'],
        ),
        ({"type": "array", "contains": {"const": 1}, "maxContains": 1, "items": {"type": "integer"}},
         ["[1]", "[2, 1]", "[2, 1, 3]"], ["[]", "[1, 1]", "[2]"]),
        ({"type": "array", "contains": {"const": 1}, "minContains": 2}, ["[1, 1]", '[1, "a", 1]'], ["[1]", "[]"]),
        ({"type": "array", "items": {"enum": [1, 2, 3]}, "uniqueItems": True}, ["[]", "[3, 1]", "[1, 2, 3]"],
         ["[1, 1]", "[1, 2, 1]"]),
        ({"oneOf": [{"type": "integer", "minimum": 3}, {"type": "integer", "maximum": 5}]}, ["2", "6"],
         ["3", "4", "5"]),
        (
            {"type": "object", "patternProperties": {"^s_": {"type": "string"}, "_n$": {"type": "integer"}},
             "additionalProperties": False},
            ["{}", '{"s_a": "x"}', '{"b_n": 1}', '{"b_n": 1, "s_a": ""}'],
            ['{"s_a": 1}', '{"q": 1}', '{"s_n": 1}', '{"s_n": "a"}'],
        ),
        ({"type": "object", "propertyNames": {"pattern": "^[a-z]{2}$"}, "additionalProperties": {"type": "null"}},
         ["{}", '{"ab": null}'], ['{"a": null}', '{"ab": 1}']),
        ({"type": "object", "properties": {"a": {}, "b": {}, "c": {}}, "additionalProperties": False,
          "minProperties": 2},
         ['{"a": 1, "b": 1}', '{"b": 1, "c": 1}', '{"a": 1, "b": 1, "c": 1}'], ["{}", '{"b": 1}']),
        ({"type": "object", "maxProperties": 2, "additionalProperties": {"type": "integer"}, "properties": {"a": {}}},
         ["{}", '{"a": 1, "b": 1}', '{"x": 1, "y": 2}'], ['{"a": 1, "b": 1, "c": 1}', '{"x": 1, "y": 1, "z": 1}']),
        ({"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": {"type": "integer"}},
         ['{"a": 1, "b": 2}'], ['{"b": 2, "a": 1}', '{"b": 1, "a": "x"}', '{"a": 1, "a": 2}']),
        ({"if": {"dependentSchemas": {"a": {"type": "string"}}}, "then": {"const": 1}, "else": {"required": ["b"]},
          "properties": {"a": {}, "b": {}}}, ["1", '{"a": 1, "b": 1}'], ["2", "[1]", '{"a": 1}', '{"b": 1}']),
        ({"type": "object", "properties": {"a": {}, "b": {}}, "minProperties": 4},
         ['{"a": 1, "b": 1, "c": 1, "d": 1}', '{"b": 1, "x": 1, "y": 1, "z": 1}'],
         ['{"a": 1, "b": 1}', '{"b": 1}', '{"a": 1, "b": 1, "c": 1}', '{"a": 1, "b": 1, "c": 1, "c": 2}']),
        ({"type": "number", "multipleOf": 0.01, "minimum": 0}, ["0.25", "3", "1.500"], ["0.001", "1.255"]),
    ],
)  # fmt: skip
def test_what_holds_exactly(schema: Any, inside: list[str], outside: list[str]) -> None:
    automaton = compile_bytes(expression_of(schema))
    for text in inside:
        assert automaton.matches(text), text
    for text in outside:
        assert not automaton.matches(text), text


REPEATED = [
    ({"not": {"additionalProperties": {"type": "string"}}}, ['{"a": 1}', '{"b": "x", "a": 1}', '{"a": 1, "b": 2}']),
    ({"not": {"patternProperties": {"^a": {"type": "string"}}}}, ['{"a": 1}', '{"a": 1, "b": "x"}']),
    (
        {"properties": {"a": {}, "ab": {}}, "not": {"patternProperties": {"^a": {"type": "string"}}}},
        ['{"a": 1}', '{"a": 1, "ab": "x"}', '{"a": 1, "ac": "x"}', '{"a": "x", "ac": 1}'],
    ),
    ({"not": {"propertyNames": {"maxLength": 1}}}, ['{"ab": 1}', '{"ab": 1, "a": 2}']),
    ({"not": {"const": {"a": "x"}}}, ['{"a": "y"}', '{"a": "x", "b": 1}', '{"a": {"b": 1, "a": 2}}']),
    ({"not": {"const": {"a": {"b": "x"}}}}, ['{"a": {"b": "y"}}', '{"a": {"b": {"c": 1, "b": "x"}}}']),
    ({"properties": {"a": {}}, "not": {"enum": [{"a": "x"}, {"b": "x"}]}}, ['{"a": "y"}', '{"b": "y"}']),
]  # fmt: skip
TWICE = [
    '{"a": 1, "a": "x"}', '{"a": "x", "a": "x"}', '{"a": "y", "a": "x"}', '{"a": 1, "b": "x", "a": "x"}',
    '{"a": {"b": 1, "b": "x"}}', '{"a": {"b": "x"}, "a": {"b": "x"}}', '{"ab": 1, "ab": "x"}', '{"ac": 1, "ac": "x"}',
    '{"b": [1], "b": "x"}', '{"b": {"b": {"b": "a"}}, "b": "x"}',
]  # fmt: skip


@pytest.mark.parametrize(("schema", "inside"), REPEATED)
def test_of_a_key_that_comes_twice_the_last_value_counts(schema: Any, inside: list[str]) -> None:
    schema = {"type": "object", **schema}
    validator = jsonschema.Draft202012Validator(schema)
    automaton = compile_bytes(expression_of(schema))
    for text in inside:
        assert validator.is_valid(json.loads(text)), text
        assert automaton.matches(text), text
    for text in TWICE:
        assert validator.is_valid(json.loads(text)) or not automaton.matches(text), text
