"""Answers that must not end too early."""

from typing import Any

import pytest

from engine.tiny import CANVAS
from gesso.engine.engine import Engine
from gesso.errors import OptionError


@pytest.mark.parametrize("mode", ["canvas", "ar"])
@pytest.mark.parametrize("fewest", [1, 5, CANVAS, CANVAS + 3])
def test_none_of_the_first_tokens_ends_an_answer(tiny: Engine, mode: str, fewest: int) -> None:
    ends = tiny.defaults.eos_token_ids
    options: dict[str, Any] = {"mode": mode, "max_new_tokens": 2 * CANVAS, "seed": 1}
    eager: dict[str, Any] = {**options, "logit_bias": dict.fromkeys(ends, 60.0)}
    assert len(tiny.generate("hi", **eager).token_ids) == 1, "by itself it would end at once"
    result = tiny.generate("hi", min_new_tokens=fewest, **eager)
    assert len(result.token_ids) == fewest + 1
    assert [token in ends for token in result.token_ids] == [False] * fewest + [True]
    assert result.finish_reason == "stop"


def test_what_an_answer_begins_with_counts(tiny: Engine) -> None:
    ends = tiny.defaults.eos_token_ids
    begin = len(tiny.tokenizer.encode("pear"))
    options: dict[str, Any] = {"seed": 1, "logit_bias": dict.fromkeys(ends, 60.0), "begin": "pear"}
    result = tiny.generate("hi", min_new_tokens=begin + 2, **options)
    assert len(result.token_ids) == begin + 3


def test_pins_may_stand_behind(tiny: Engine) -> None:
    ends = tiny.defaults.eos_token_ids
    options: dict[str, Any] = {"seed": 1, "logit_bias": dict.fromkeys(ends, 60.0), "max_new_tokens": CANVAS}
    result = tiny.generate("hi", min_new_tokens=6, canvas=[None, 300], **options)
    assert result.token_ids[1] == 300
    assert len(result.token_ids) == 7


@pytest.mark.parametrize(
    ("options", "option"),
    [
        ({"min_new_tokens": 9, "max_new_tokens": 8}, "min_new_tokens"),
        ({"min_new_tokens": 2, "regex": "a+"}, "min_new_tokens"),
    ],
)
def test_what_contradicts_it_is_refused(tiny: Engine, options: dict[str, Any], option: str) -> None:
    with pytest.raises(OptionError) as refusal:
        tiny.generate("hi", **options)
    assert refusal.value.option == option


@pytest.mark.parametrize("mode", ["canvas", "ar"])
def test_the_stop_text_stays_where_it_is_asked_for(tiny: Engine, mode: str) -> None:
    options: dict[str, Any] = {
        "mode": mode,
        "seed": 1,
        "max_new_tokens": 2 * CANVAS,
        "ignore_eos": True,
        "logit_bias": {8: -100},
    }
    text = tiny.generate("hi", **options).text
    stop = text[len(text) // 2 :][:2]
    cut, kept = (tiny.generate("hi", stop=[stop], include_stop=include, **options) for include in (False, True))
    assert cut.text == text[: text.index(stop)]
    assert (kept.text, kept.stop_string) == (cut.text + stop, stop)
