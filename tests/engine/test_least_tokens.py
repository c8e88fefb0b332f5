"""Answers that must not end too early."""

import re
from typing import Any

import pytest

from engine.tiny import CANVAS
from gesso.engine.engine import Engine
from gesso.errors import OptionError
from gesso.tasks.vocabulary import build_tokenizer
from gesso.text.tokenizer import Tokenizer

ENDS = tuple(Tokenizer(build_tokenizer()).special[name] for name in ("<eos>", "<turn|>"))
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}


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
        ({"min_new_tokens": 2, "tools": [WEATHER], "tool_choice": "required"}, "min_new_tokens"),
        ({"ignore_eos": True, "tools": [WEATHER], "tool_choice": "required"}, "ignore_eos"),
        (
            {"min_new_tokens": 2, "logit_bias": {token: -100.0 for token in range(5000) if token not in ENDS}},
            "logit_bias",
        ),
    ],
)
def test_what_contradicts_it_is_refused(tiny: Engine, options: dict[str, Any], option: str) -> None:
    with pytest.raises(OptionError) as refusal:
        tiny.generate("hi", **options)
    assert refusal.value.option == option


@pytest.mark.parametrize("mode", ["canvas", "ar"])
def test_where_nothing_ends_an_answer_it_changes_nothing(tiny: Engine, mode: str) -> None:
    options: dict[str, Any] = {"mode": mode, "seed": 1, "max_new_tokens": CANVAS, "ignore_eos": True}
    options["logit_bias"] = {ENDS[0]: 60.0}
    plain, asked = (tiny.generate("hi", min_new_tokens=fewest, **options).token_ids for fewest in (0, 5))
    assert plain == asked == (ENDS[0],) * CANVAS


def test_an_end_that_no_token_has_is_none(tiny: Engine) -> None:
    result = tiny.generate("hi", seed=1, min_new_tokens=3, eos_token_ids=(10**6,), max_new_tokens=4)
    assert (len(result.token_ids), result.finish_reason) == (4, "length")


@pytest.mark.parametrize("mode", ["canvas", "ar"])
def test_no_stop_text_counts_before(tiny: Engine, mode: str) -> None:
    options: dict[str, Any] = {"mode": mode, "seed": 1, "max_new_tokens": 2 * CANVAS, "ignore_eos": True}
    options["logit_bias"] = {300: 60.0}
    piece = tiny.generate("hi", **{**options, "max_new_tokens": 1}).text
    for fewest in (1, 4, CANVAS + 1):
        result = tiny.generate("hi", stop=[piece], min_new_tokens=fewest, **options)
        assert (len(result.token_ids), result.text) == (fewest + 1, piece * fewest)


@pytest.mark.parametrize("mode", ["canvas", "ar"])
def test_the_text_of_the_token_that_ends_it_stays_too(tiny: Engine, mode: str) -> None:
    options: dict[str, Any] = {"mode": mode, "seed": 1, "max_new_tokens": CANVAS, "logit_bias": {300: 60.0}}
    piece = tiny.generate("hi", **{**options, "max_new_tokens": 1}).text
    for include, text in ((False, ""), (True, piece)):
        result = tiny.generate("hi", eos_token_ids=(300,), include_stop=include, **options)
        assert (result.token_ids, result.text, result.finish_reason) == ((300,), text, "stop")


@pytest.mark.parametrize("ends", [(6,), (410,)])
def test_other_ends_beside_a_constraint(tiny: Engine, ends: tuple[int, ...]) -> None:
    result = tiny.generate("hi", seed=1, regex="[a-c]{2,5}", eos_token_ids=ends, max_new_tokens=2 * CANVAS)
    assert re.fullmatch("[a-c]{2,5}", result.text)
    assert result.token_ids[-1] in ends


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
