"""What a called function returned, told in plain words."""

import json
from typing import Any

import pytest

from gesso.tasks.base import Call, messages_of
from gesso.tasks.skills.results import Results, told
from gesso.train.evaluate import example_request
from tasks.drawing import drawn

SKILL = Results()


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"sky": "grey", "degrees": 21}, "sky: grey, degrees: 21"),
        ({"departure_time": "08:30", "open": True, "seats": None}, "departure time: 08:30, open: true, seats: null"),
        ({"city": "Drasto", "now": {"wind": 3, "rain": 0.5}}, "city: Drasto, wind: 3, rain: 0.5"),
        ({"ids": [3, 4, 5], "tags": ["new", "red"]}, "ids: 3, 4 and 5, tags: new and red"),
    ],
)
def test_an_object_is_told_field_by_field(fields: dict[str, object], text: str) -> None:
    assert told(fields) == text


def test_answers_tell_what_came_back() -> None:
    kinds = set()
    for example in drawn(SKILL):
        assert example.call is not None
        kinds.add(example.kind)
        result, answer = example.call.result, example.answer
        if example.kind == "fields":
            assert answer == told(json.loads(result))
        elif example.kind == "rows":
            assert answer.split("\n") == [told(row) for row in listed(result)]
        elif example.kind == "values":
            assert answer == ", ".join(str(value) for value in listed(result))
        elif example.kind == "failed":
            assert answer.startswith("It failed: ")
            assert f'"{answer.removeprefix("It failed: ").removesuffix(".")}"' in result
        else:
            assert answer == {"done": "Done.", "nothing": "Nothing was found."}.get(example.kind, result)
    assert kinds == {"fields", "rows", "values", "text", "done", "failed", "nothing"}


def listed(result: str) -> list[Any]:
    """What a list holds, whether it stands alone or is the only field of an object."""
    found = json.loads(result)
    if isinstance(found, dict):
        (found,) = found.values()
    return list(found)


def test_call_and_result_stand_behind_the_request() -> None:
    example = drawn(SKILL)[0]
    assert isinstance(example.call, Call)
    user, calling, returned = messages_of(example)
    assert user == {"role": "user", "content": example.prompt}
    (call,) = calling["tool_calls"]
    assert call["function"] == {"name": example.call.name, "arguments": example.call.arguments}
    assert returned == {"role": "tool", "name": example.call.name, "content": example.call.result}
    declared = [json.loads(tool)["function"] for tool in example.tools]
    assert example.call.name in {function["name"] for function in declared}
    request = example_request(example, {})
    assert request.prompt == [user, calling, returned]
    assert request.options["tools"] == [json.loads(tool) for tool in example.tools]


def test_a_case_or_a_full_stop_is_no_mistake() -> None:
    example = next(example for example in drawn(SKILL) if example.kind == "fields")
    assert SKILL.grade(example, f"{example.answer.capitalize()}.")
    assert not SKILL.grade(example, example.answer.replace(": ", " "))
