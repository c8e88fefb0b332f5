"""The chat template's renderings, checked as text."""

from importlib import resources
from typing import Any, NoReturn

import pytest
from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

EMPTY_THOUGHT = "<|channel>thought\n<channel|>"
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Look it up",
        "parameters": {"type": "object", "properties": {"type": {"type": "string"}}, "required": ["type"]},
    },
}
CALL = {
    "id": "c1",
    "function": {"name": "weather", "arguments": {"type": "rain", "days": 2, "now": True, "at": [None]}},
}
CALL_TEXT = '<|tool_call>call:weather{type:<|"|>rain<|"|>,days:2,now:true,at:[null]}<tool_call|>'


def render(messages: list[dict[str, Any]], **options: Any) -> str:
    def raise_exception(message: str) -> NoReturn:
        raise TemplateError(message)

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.globals["raise_exception"] = raise_exception
    source = (resources.files("gesso.tasks") / "chat_template.jinja").read_text(encoding="utf-8")
    return environment.from_string(source).render(messages=messages, bos_token="<bos>", **options)


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def test_one_question() -> None:
    expected = "<bos><|turn>user\nHello<turn|>\n"
    assert render([user(" Hello\n")]) == expected
    assert render([user("Hello")], add_generation_prompt=True) == expected + "<|turn>model\n" + EMPTY_THOUGHT


def test_thinking_opens_a_system_turn_and_leaves_the_thought_to_the_model() -> None:
    text = render([user("Hello")], add_generation_prompt=True, enable_thinking=True)
    assert text == "<bos><|turn>system\n<|think|>\n<turn|>\n<|turn>user\nHello<turn|>\n<|turn>model\n"


@pytest.mark.parametrize("role", ["system", "developer"])
def test_system_message(role: str) -> None:
    text = render([{"role": role, "content": " Be brief. "}, user("Hello")])
    assert text == "<bos><|turn>system\nBe brief.<turn|>\n<|turn>user\nHello<turn|>\n"


def test_text_parts_are_joined() -> None:
    parts = [{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}]
    assert render([user(parts)]) == render([user("Hello")])


def test_images_and_clips_stand_where_they_were_put() -> None:
    parts = [{"type": "image"}, {"type": "text", "text": "a "}, {"type": "video"}, {"type": "image"}]
    text = render([user(parts)])
    assert "<|turn>user\n<|image|>a <|video|><|image|><turn|>\n" in text


@pytest.mark.parametrize("role", ["assistant", "model"])
def test_thoughts_of_earlier_turns_are_dropped(role: str) -> None:
    answer = {"role": role, "content": "<|channel>thought\nhm<channel|>Yes", "reasoning": "hm"}
    text = render([user("a"), answer, user("b")])
    assert text == "<bos><|turn>user\na<turn|>\n<|turn>model\nYes<turn|>\n<|turn>user\nb<turn|>\n"


def test_tool_declaration() -> None:
    assert render([user("a")], tools=[WEATHER]) == (
        '<bos><|turn>system\n<|tool>declaration:weather{description:<|"|>Look it up<|"|>,'
        'parameters:{type:<|"|>OBJECT<|"|>,properties:{type:{type:<|"|>STRING<|"|>}},required:[<|"|>type<|"|>]}}'
        "<tool|><turn|>\n<|turn>user\na<turn|>\n"
    )


@pytest.mark.parametrize("result", [{"name": "weather"}, {"tool_call_id": "c1"}])
def test_tool_result_continues_the_turn(result: dict[str, str]) -> None:
    messages = [
        user("a"),
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "content": "wet", **result},
    ]
    start = (
        f"<bos><|turn>user\na<turn|>\n<|turn>model\n{CALL_TEXT}"
        '<|tool_response>response:weather{value:<|"|>wet<|"|>}<tool_response|>'
    )
    assert render(messages, add_generation_prompt=True) == start
    assert render(messages) == start + "<turn|>\n"
    answered = [*messages, {"role": "assistant", "content": "Rain."}]
    assert render(answered) == start + "Rain.<turn|>\n"


def test_tool_result_may_be_a_mapping() -> None:
    text = render([user("a"), {"role": "tool", "name": "weather", "content": {"rain": 3}}])
    assert "<|tool_response>response:weather{rain:3}<tool_response|>" in text


@pytest.mark.parametrize(
    "message",
    [
        {"role": "narrator", "content": "a"},
        {"role": "system", "content": "not first"},
        user([{"type": "audio", "audio": "x"}]),
        user(["x"]),
        user({"type": "text", "text": "x"}),
        {"role": "tool", "content": "whose?"},
        {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]},
    ],
)
def test_what_it_cannot_write_is_refused(message: dict[str, Any]) -> None:
    with pytest.raises(TemplateError):
        render([user("a"), message])
