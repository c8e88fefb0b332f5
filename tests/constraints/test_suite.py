"""The cases of `suite.py`: what is held to, what is refused, and the table of it in docs/control.md."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from constraints.schemas import expression_of
from constraints.suite import SUITE
from constraints.test_json_schema import FORMAT_CHECKER
from gesso.constraints.bytes_automaton import compile_bytes
from gesso.errors import OptionError

PAGE = Path(__file__).parents[2] / "docs" / "control.md"


@dataclass
class Coverage:
    """Of one keyword: schemas held to and refused, valid values that can be written, and how many there are."""

    held: int = 0
    refused: int = 0
    written: int = 0
    valid: int = 0

    def line(self, keyword: str) -> str:
        values = f"{self.written} of {self.valid}" if self.valid else "-"
        return f"| {keyword} | {self.held or '-'} | {self.refused or '-'} | {values} |"


def is_valid(schema: Any, value: Any) -> bool:
    draft = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    return bool(draft(schema, format_checker=FORMAT_CHECKER).is_valid(value))


@pytest.fixture(scope="module")
def coverage() -> dict[str, Coverage]:
    found = {}
    for keyword, groups in SUITE.items():
        found[keyword] = here = Coverage()
        for schema, valid, invalid in groups:
            assert all(is_valid(schema, value) for value in valid), schema
            assert not any(is_valid(schema, value) for value in invalid), schema
            try:
                automaton = compile_bytes(expression_of(schema))
            except OptionError:
                here.refused += 1
                continue
            here.held += 1
            here.valid += len(valid)
            here.written += sum(automaton.matches(json.dumps(value, ensure_ascii=False)) for value in valid)
            for value in invalid:
                assert not automaton.matches(json.dumps(value, ensure_ascii=False)), (schema, value)
    return found


def test_nothing_invalid_can_be_written_and_nearly_all_that_is_valid_can(coverage: dict[str, Coverage]) -> None:
    written, valid = (sum(getattr(one, name) for one in coverage.values()) for name in ("written", "valid"))
    assert sum(one.held for one in coverage.values()) >= 60
    assert written / valid > 0.9


def test_the_page_has_the_table(coverage: dict[str, Coverage]) -> None:
    table = "\n".join(one.line(keyword) for keyword, one in coverage.items())
    assert table in PAGE.read_text("utf-8"), f"docs/control.md should have:\n{table}"


DRAFTS = {
    "4": "http://json-schema.org/draft-04/schema#",
    "6": "http://json-schema.org/draft-06/schema#",
    "7": "http://json-schema.org/draft-07/schema#",
    "2019-09": "https://json-schema.org/draft/2019-09/schema",
    "2020-12": "https://json-schema.org/draft/2020-12/schema",
}
INSIDE: Any = {"allOf": [{"$ref": "http://a.example/b#/definitions/c"}], "definitions": {"c": {"enum": [1]}}}
INTEGERS: Any = {"type": "array", "items": {"type": "integer"}}
NULLS: Any = {"type": "object", "additionalProperties": {"type": "null"}}
TELLING: dict[str, tuple[Any, Any]] = {
    "type, enum, allOf, anyOf, oneOf, not, $ref": ({"type": "string", "not": {"enum": ["x"]}}, "x"),
    "properties, required, additionalProperties, patternProperties": ({**NULLS, "required": ["a"]}, {}),
    "minProperties, maxProperties, minItems, maxItems, uniqueItems": ({**INTEGERS, "maxItems": 0}, [1]),
    "minLength, maxLength, pattern, format": ({"type": "string", "maxLength": 0}, "x"),
    "minimum, maximum, multipleOf": ({"type": "integer", "maximum": 0}, 1),
    "exclusiveMinimum, exclusiveMaximum: numbers": ({"type": "integer", "exclusiveMaximum": 1}, 1),
    "exclusiveMinimum, exclusiveMaximum: booleans": ({"type": "integer", "maximum": 1, "exclusiveMaximum": True}, 1),
    "id": ({"type": "integer", "id": "http://a.example/b", **INSIDE}, 2),
    "$id": ({"type": "integer", "$id": "http://a.example/b", **INSIDE}, 2),
    "const": ({"type": "integer", "const": 1}, 2),
    "contains": ({**INTEGERS, "contains": {"const": 1}}, []),
    "propertyNames": ({**NULLS, "propertyNames": {"maxLength": 1}}, {"ab": None}),
    "if, then, else": ({"type": "string", "if": {"maxLength": 1}, "then": False}, "x"),
    "items: a list, additionalItems": ({"type": "array", "items": [{"const": 1}], "additionalItems": False}, [1, 2]),
    "prefixItems": ({**INTEGERS, "prefixItems": [{"enum": [1]}]}, [2]),
    "dependencies": ({**NULLS, "dependencies": {"a": ["b"]}}, {"a": None}),
    "dependentRequired, dependentSchemas": ({**NULLS, "dependentRequired": {"a": ["b"]}}, {"a": None}),
    "minContains, maxContains": ({**INTEGERS, "contains": {"enum": [1]}, "minContains": 2}, [1]),
    "unevaluatedItems, unevaluatedProperties": ({"type": "array", "unevaluatedItems": {"type": "null"}}, [1]),
    "$anchor": ({"type": "integer", "allOf": [{"$ref": "#a"}], "$defs": {"b": {"$anchor": "a", "enum": [1]}}}, 2),
    "$recursiveRef": ({"type": "array", "items": {"$recursiveRef": "#"}}, [1]),
    "$dynamicRef": ({"type": "array", "items": {"$dynamicRef": "#"}}, [1]),
}
"""Keywords, and a schema with one of them that refuses a value where the draft has it."""


def holds(schema: dict[str, Any], value: Any) -> bool:
    try:
        return not compile_bytes(expression_of(schema)).matches(json.dumps(value))
    except OptionError:
        return False


def test_the_page_has_the_table_by_draft() -> None:
    rows = []
    for keywords, (schema, value) in TELLING.items():
        held = ["yes" if holds({"$schema": address, **schema}, value) else "-" for address in DRAFTS.values()]
        rows.append(" | ".join([f"| {keywords}", *held, "yes |" if holds(schema, value) else "- |"]))
    table = "\n".join(rows)
    assert table in PAGE.read_text("utf-8"), f"docs/control.md should have:\n{table}"
