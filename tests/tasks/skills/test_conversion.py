"""Converted values are those of the prompt."""

import json

import pytest

from gesso.tasks import TASKS
from tasks.drawing import drawn, of_kind


@pytest.mark.parametrize("kind", ["values", "nested"])
def test_converted_values_stand_in_the_prompt(kind: str) -> None:
    def leaves(value: object) -> list[object]:
        if isinstance(value, dict):
            return [leaf for inner in value.values() for leaf in leaves(inner)]
        return [leaf for inner in value for leaf in leaves(inner)] if isinstance(value, list) else [value]

    checked: set[type] = set()
    for example in of_kind(drawn(TASKS["conversion"], 5000), kind):
        if example.answer[0] not in "[{":
            continue
        for leaf in leaves(json.loads(example.answer)):
            shown = "null" if leaf is None else str(leaf).lower() if isinstance(leaf, bool) else str(leaf)
            assert shown in example.prompt
            checked.add(type(leaf))
    assert {bool, int, float, str} <= checked


def test_pretty_json_is_graded_by_its_lines() -> None:
    task = TASKS["conversion"]
    example = next(e for e in of_kind(drawn(task, 2000), "pretty") if e.answer.startswith("{\n"))
    assert task.grade(example, example.answer)
    assert not task.grade(example, json.dumps(json.loads(example.answer)))


def test_lines_of_json_are_objects() -> None:
    given = 0
    for example in of_kind(drawn(TASKS["conversion"], 2000), "json lines"):
        lines = example.answer.split("\n")
        if len(lines) > 1 and all(line.startswith("{") for line in lines):
            assert all(isinstance(json.loads(line), dict) for line in lines), example
            given += 1
    assert given > 5


def test_pairs_have_the_values_of_the_prompt() -> None:
    for example in of_kind(drawn(TASKS["conversion"], 2000), "pairs"):
        for line in example.answer.split("\n"):
            if "=" in line:
                assert all(part in example.prompt for part in line.split("=", 1)), example
