"""A schema says the same as a request's options hold it, frozen, and as `json.loads` gives it."""

from typing import Any

import pytest

from gesso.constraints.bytes_automaton import compile_bytes
from gesso.constraints.json_keywords import type_of
from gesso.constraints.json_schema import schema_expression
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
        automaton = compile_bytes(schema_expression(given))
        assert all(automaton.matches(text) for text in taken)
        assert not any(automaton.matches(text) for text in refused)


def test_a_frozen_value_of_another_type_is_no_value() -> None:
    with pytest.raises(OptionError, match="no value is valid"):
        schema_expression(freeze({"type": "null", "enum": [[1], {}]}))


def test_types_of_values() -> None:
    values: list[Any] = [None, True, "", [], {}, 3, 3.0, 2.5]
    names = ["null", "boolean", "string", "array", "object", "integer", "integer", "number"]
    assert [type_of(value) for value in values] == names
    assert [type_of(freeze(value)) for value in values] == names
