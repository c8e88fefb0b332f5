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
