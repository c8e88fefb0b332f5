"""A thought's budget, counted over canvases and over what an answer is made to begin with."""

import re
from typing import Any

import pytest

from engine.tiny import CANVAS, CONTEXT, reciter
from gesso.engine.engine import Engine, Request
from gesso.engine.reasoning import within_budget
from gesso.errors import OptionError
from gesso.generation import GenerationConfig
from gesso.text.output import CHANNEL, CHANNEL_END, OutputParser

WORD = 300


@pytest.mark.parametrize(
    ("read", "begin", "block", "kept", "closed"),
    [
        ("", "", "<..........", 6, True),  # the budget is 5
        ("", "", "<.....>..", 9, False),
        ("", "", "..........", 10, False),
        ("", "", "<..>.<.......", 9, True),  # two thoughts have one budget
        ("<...", "", "......", 2, True),
        ("<.....", "", "...", 0, True),
        ("<..>", "", "......", 6, False),
        ("", "<..", "......", 3, True),
        ("", "<........", "...", 0, True),
        ("", "<..>", "......", 6, False),
        ("", "..", "<......", 6, True),
        ("", "", "<.<.<.<...", 6, True),  # what opens a thought once more is a part of it
        ("<.<.<", "", "<...", 1, True),
        ("<..", "", ".;......", 3, True),  # with ignore_eos the end of an answer is a token like any other
        ("<..;", "", "......", 2, True),
    ],
)
def test_a_thought_is_closed_where_its_budget_is_used_up(
    tiny: Engine, read: str, begin: str, block: str, kept: int, closed: bool
) -> None:
    special = tiny.tokenizer.special
    tokens = {"<": special[CHANNEL], ">": special[CHANNEL_END], ";": special["<eos>"], ".": WORD}
    parser = OutputParser(tiny.tokenizer)
    for mark in read:
        parser.feed(tokens[mark])
    config = GenerationConfig(eos_token_ids=(special["<eos>"],), thinking_budget=5, ignore_eos=True)
    given = [tokens[mark] for mark in block]
    found = within_budget(given, parser, config, special, response_prefix=[tokens[mark] for mark in begin])
    assert found == given[:kept] + [special[CHANNEL_END]] * closed


@pytest.mark.parametrize("length", range(3, 24))
@pytest.mark.parametrize("options", [{"thinking_share": 0.25}, {"thinking_share": 1.0}, {"thinking_budget": 1000}])
def test_there_is_always_room_for_an_answer(length: int, options: dict[str, Any]) -> None:
    """The tokens that open and close a thought count too."""
    engine = reciter("<|channel>thought\n" + "pear fig " * 30)
    result = engine.generate("hi", seed=1, thinking=True, max_new_tokens=length, **options)
    assert result.text
    assert result.reasoning_tokens <= length * options.get("thinking_share", 1)


@pytest.mark.parametrize("options", [{"thinking_share": 0.75}, {"thinking_budget": 13}])
def test_there_is_room_for_an_answer_behind_a_response_prefix(options: dict[str, Any]) -> None:
    engine = reciter("<|channel>thought\n" + "pear fig " * 30)
    begin = "pear fig apple kiwi"
    result = engine.generate("hi", seed=1, thinking=True, max_new_tokens=16, begin=begin, **options)
    assert result.text.startswith(begin)
    assert result.reasoning_tokens
    assert result.text.removeprefix(begin).strip()


def test_a_share_is_one_of_what_there_is_room_for() -> None:
    engine = reciter("<|channel>thought\n" + "pear fig " * 200)
    room = 5 * CANVAS
    result = engine.generate([5] * (CONTEXT - room), seed=1, thinking_share=0.5, ignore_eos=True)
    assert (result.completion_tokens, result.reasoning_tokens) == (room, room // 2 - 2)


def test_a_share_and_a_budget_are_both_kept(tiny: Engine) -> None:
    for options, budget in (
        ({"thinking_share": 0.5, "thinking_budget": 3}, 3),
        ({"thinking_share": 0.5, "thinking_budget": 30}, 8),
        ({"thinking_share": 0.01}, 0),
        ({}, None),
    ):
        state = tiny.start(Request("hi", {"max_new_tokens": 20, **options}))
        assert state.config.thinking_budget == budget
    with pytest.raises(OptionError, match="thinking_budget must be left out beside canvas"):
        tiny.start(Request("hi", {"canvas": [5], "thinking_share": 0.5}))


def test_a_thought_that_the_answer_begins_with_counts(tiny: Engine) -> None:
    never = {tiny.tokenizer.special[name]: -100 for name in (CHANNEL_END, "<eos>", "<turn|>")}
    result = tiny.generate(
        "hi", seed=1, begin=f"{CHANNEL}thought\npear fig", thinking_budget=6, max_new_tokens=24, logit_bias=never
    )
    assert result.reasoning_tokens == 6
    assert result.reasoning.startswith("pear fig")
    assert result.text


@pytest.mark.parametrize("options", [{"thinking": True}, {"thinking_budget": 3}, {"mode": "ar"}])
def test_a_constraint_holds_behind_a_thought_that_the_answer_begins_with(tiny: Engine, options: dict[str, Any]) -> None:
    never, begin = {tiny.tokenizer.special[CHANNEL]: -100}, f"{CHANNEL}thought\npear"
    begun = {"seed": 1, "begin": begin, "max_new_tokens": 4 * CANVAS, "logit_bias": never, **options}
    result = tiny.generate("hi", regex="[a-c]{2,3}", **begun)
    assert re.fullmatch("[a-c]{2,3}", result.text)
    assert result.reasoning.startswith("pear")
    tool = {"type": "function", "function": {"name": "clock", "parameters": {"type": "object", "maxProperties": 0}}}
    called = tiny.generate("hi", tools=[tool], tool_choice="required", **begun)
    assert {call.name for call in called.tool_calls} == {"clock"}
    assert called.text.strip() == ""


def test_a_constraint_holds_behind_a_thought_that_the_answer_begins_with_and_closes(tiny: Engine) -> None:
    result = tiny.generate("hi", seed=1, begin=f"{CHANNEL}thought\npear{CHANNEL_END}", regex="[a-c]{2,3}")
    assert (result.reasoning, re.fullmatch("[a-c]{2,3}", result.text) is not None) == ("pear", True)


def test_a_budget_takes_no_more_of_the_context() -> None:
    """An answer that fits without a budget for thoughts fits with one: its last canvas is as narrow as it has to be."""
    engine = reciter(
        "<|channel>thought\npear fig apple kiwi lemon mango plum lime pear fig apple kiwi lemon mango plum"
    )
    room = 5 * CANVAS
    prompt = [5] * (CONTEXT - room)
    options: dict[str, Any] = {"seed": 1, "max_new_tokens": room, "ignore_eos": True}
    plain = engine.generate(prompt, **options)
    assert plain.completion_tokens == room
    with pytest.raises(OptionError, match="are past the model's"):
        engine.generate([5, *prompt], thinking_budget=3, **options)
    cut = engine.generate(prompt, thinking_budget=3, **options)
    assert cut.reasoning_tokens == 3
    assert (cut.completion_tokens, cut.finish_reason) == (room, "length")
    assert cut.canvases == 6, "one was cut short, so that there is one more"
    near = engine.start(Request(prompt, {**options, "thinking_budget": 3}))
    assert near.max_seq_len == CONTEXT
    far = engine.start(Request([5], {**options, "thinking_budget": 3}))
    assert far.max_seq_len == 1 + room - 1 + CANVAS
