"""Answers of which the client has the beginning."""

import re
from typing import Any

import pytest

from engine.tiny import CANVAS
from gesso.engine.engine import Engine
from gesso.text.output import CHANNEL, CHANNEL_END

OPTIONS: dict[str, Any] = {"seed": 1, "max_new_tokens": 2 * CANVAS}


@pytest.mark.parametrize("mode", ["canvas", "ar"])
@pytest.mark.parametrize("begun", ["pear fig", "It is <|image> red", "é pear"])
def test_what_there_is_already_is_the_prompts_end(tiny: Engine, mode: str, begun: str) -> None:
    ids = tiny.prompts.read("hi", max_tokens=None).ids
    said = tiny.prompts.encode_typed(begun, "begun", None)
    whole = tiny.generate([*ids, *said], mode=mode, **OPTIONS)
    result = tiny.generate("hi", begun=begun, mode=mode, **OPTIONS)
    assert (result.token_ids, result.text) == (whole.token_ids, whole.text)
    assert (result.prompt_tokens, result.completion_tokens) == (whole.prompt_tokens, whole.completion_tokens)


def test_it_takes_nothing_of_the_answers_length(tiny: Engine) -> None:
    begun = "pear " * (4 * CANVAS)
    result = tiny.generate("hi", begun=begun, seed=1, max_new_tokens=3, ignore_eos=True)
    assert result.completion_tokens == 3


def test_reasoning_that_was_open_goes_on(tiny: Engine) -> None:
    never = {"logit_bias": {tiny.tokenizer.special[CHANNEL_END]: -100.0}, "ignore_eos": True}
    result = tiny.generate("hi", begun=f"{CHANNEL}thought\npear", **OPTIONS, **never)
    assert result.reasoning
    assert "pear" not in result.reasoning[:4]
    assert (result.text, result.reasoning_tokens) == ("", len(result.token_ids))


def test_calls_and_text_that_were_there_are_not_told(tiny: Engine) -> None:
    call = "<|tool_call>call:weather{}<tool_call|>"
    plain = tiny.generate("hi", begun=f"fig{call}pear", **OPTIONS)
    assert plain.tool_calls == ()
    assert not plain.text.startswith("fig")


def test_a_constraint_holds_behind_it(tiny: Engine) -> None:
    result = tiny.generate("hi", begun="pear", regex="[a-c]{2,5}", **OPTIONS)
    assert re.fullmatch("[a-c]{2,5}", result.text)


def test_penalties_take_it_for_the_prompt(tiny: Engine) -> None:
    options: dict[str, Any] = {"mode": "ar", "temperature": 0, "max_new_tokens": 1, "logit_bias": {8: -100}}
    (said,) = tiny.generate("hi", begun="pear", **options).token_ids
    begun = "pear" + tiny.tokenizer.piece(said) * 3
    plain, penalised = (
        tiny.generate("hi", begun=begun, **options, **given).token_ids for given in ({}, {"frequency_penalty": 2.0})
    )
    assert plain == penalised


def test_a_beginning_stands_behind_it(tiny: Engine) -> None:
    result = tiny.generate("hi", begun="pear", begin=" fig", **OPTIONS)
    assert result.text.startswith(" fig")
