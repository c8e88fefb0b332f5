"""A schema says the same as a request's options hold it, frozen, and as `json.loads` gives it."""

from typing import Any

import pytest

from constraints.schemas import expression_of
from gesso.constraints.budget import Budget, within
from gesso.constraints.bytes_automaton import compile_bytes
from gesso.constraints.json_keywords import all_hashed, hashed, merge, plain, same, says_more, type_of
from gesso.errors import OptionError
from gesso.options.frozen import freeze


@pytest.mark.parametrize(
    ("schema", "taken", "refused"),
    [
        ({"type": "array", "enum": [[1], "a", {"b": 2}]}, ["[1]"], ['"a"', '{"b": 2}']),
        ({"type": "object", "oneOf": [{"enum": [{"a": [1]}]}, {"const": [1]}]}, ['{"a": [1]}'], ["[1]"]),
        ({"enum": [[1], [2], {"a": 1}], "not": {"enum": [[2], {"a": 1}]}}, ["[1]"], ["[2]", '{"a": 1}']),
        ({"type": ["null", "boolean"], "enum": [[1], None, {}, True]}, ["null", "true"], ["[1]", "{}"]),
    ],
)
def test_frozen_values_have_the_types_of_others(schema: Any, taken: list[str], refused: list[str]) -> None:
    for given in (schema, freeze(schema)):
        automaton = compile_bytes(expression_of(given))
        assert all(automaton.matches(text) for text in taken)
        assert not any(automaton.matches(text) for text in refused)


def test_a_frozen_value_of_another_type_is_no_value() -> None:
    with pytest.raises(OptionError, match="no value is valid"):
        expression_of(freeze({"type": "null", "enum": [[1], {}]}))


def test_types_of_values() -> None:
    values: list[Any] = [None, True, "", [], {}, 3, 3.0, 2.5]
    names = ["null", "boolean", "string", "array", "object", "integer", "integer", "number"]
    assert [type_of(value) for value in values] == names
    assert [type_of(freeze(value)) for value in values] == names


def test_what_is_equal_is_equal_as_a_key() -> None:
    values: list[Any] = [None, True, False, 0, 1, 1.0, 1.5, "1", "", [], {}, [1], [True], [[1.0]], [[True]], {"a": 1},
                         {"a": True}, {"a": 1.0, "b": [0]}, {"b": [False], "a": 1}, {"b": [0], "a": 1}]  # fmt: skip
    for one in values:
        for other in values:
            assert (hashed(one) == hashed(other)) == same(one, other), (one, other)
            assert (hashed(freeze(one)) == hashed(other)) == same(one, other), (one, other)


@pytest.mark.parametrize(
    ("schema", "taken", "refused"),
    [
        (
            {"allOf": [{"properties": {"a": {"const": 1}}}, {"properties": {"a": {"const": True}}}]},
            ["{}"],
            ['{"a": 1}', '{"a": true}'],
        ),
        ({"allOf": [{"not": {"const": 0}}, {"not": {"const": False}}]}, ["1", "true"], ["0", "false"]),
        ({"allOf": [{"items": {"const": 1}}, {"items": {"const": True}}]}, ["[]"], ["[1]", "[true]"]),
    ],
)
def test_what_python_calls_equal_is_told_apart(schema: Any, taken: list[str], refused: list[str]) -> None:
    automaton = compile_bytes(expression_of(schema))
    assert all(map(automaton.matches, taken))
    assert not any(map(automaton.matches, refused))


def test_parts_that_say_the_same_stand_once() -> None:
    one, other = plain({"properties": {"a": {"const": 1}}}), plain({"properties": {"a": {"const": 1.0}}})
    assert merge(one, other) == one
    assert says_more(one, other)
    assert not says_more(one, plain({"properties": {"a": {"const": True}}}))


def test_long_lists_are_compared_at_once() -> None:
    numbers = list(range(20_000))
    assert len(all_hashed(numbers)) == len(numbers)
    with within(Budget(max_seconds=2.0)):
        for schema in (
            {"allOf": [{"enum": numbers}, {"enum": numbers[-1:] + [-1 - n for n in numbers]}]},
            {"enum": numbers, "not": {"enum": numbers[:-1]}},
        ):
            assert compile_bytes(expression_of(schema)).matches("19999")
