"""What the harness asks, in the engine's terms."""

import logging
from typing import Any

import pytest

from gesso.errors import OptionError
from gesso.lm_eval.conversion import (
    cut_left,
    distinct_seeds,
    fit_to_context,
    generation_options,
    split_spaces,
    usable_device,
)


def test_a_cuda_device_that_is_not_there_is_auto(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert [usable_device(name) for name in ("cpu", "auto", "mps")] == ["cpu", "auto", "mps"]
    assert not caplog.records
    assert usable_device("cuda:0") == "auto"
    assert [(record.levelno, record.getMessage().count("\n")) for record in caplog.records] == [(logging.WARNING, 0)]
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    assert usable_device("cuda:0") == "cuda:0"


@pytest.mark.parametrize(
    ("asked", "options"),
    [
        ({}, {"stop": ()}),
        ({"until": "#"}, {"stop": ("#",)}),
        ({"until": ["#", ""], "max_gen_toks": 8.0}, {"stop": ("#",), "max_new_tokens": 8}),
        ({"do_sample": False, "temperature": 0.7}, {"stop": (), "temperature": 0.0}),
        ({"do_sample": True, "temperature": 0.7, "seed": 3}, {"stop": (), "temperature": 0.7, "seed": 3}),
        ({"num_beams": 1, "use_cache": True, "min_p": None}, {"stop": ()}),
        ({"repetition_penalty": 1.2, "presence_penalty": None}, {"stop": (), "repetition_penalty": 1.2}),
        ({"penalty_window": 9, "min_new_tokens": 2}, {"stop": (), "penalty_window": 9, "min_new_tokens": 2}),
    ],
)
def test_generation_options(asked: dict[str, Any], options: dict[str, Any]) -> None:
    before = dict(asked)
    assert generation_options(asked) == options
    assert asked == before, "the harness shows them afterwards"


@pytest.mark.parametrize(("name", "value"), [("num_beams", 3), ("length_penalty", 1.2), ("colour", "red")])
def test_what_is_not_neutral_is_refused(name: str, value: Any) -> None:
    with pytest.raises(OptionError, match=f"gen_kwargs: {name} {value!r} is not known here"):
        generation_options({name: value})


@pytest.mark.parametrize(
    ("tokens", "most", "kept", "answer"),
    [
        (10, 20, 10, 20),
        (10, None, 10, None),
        (84, 16, 84, 16),
        (85, 16, 84, 16),
        (200, 17, 68, 17),
        (200, None, 84, None),
        (10, 10**6, 10, 80),
        (200, 10**6, 52, 48),
    ],
)
def test_a_prompt_and_its_answer_fit_the_context(tokens: int, most: int | None, kept: int, answer: int | None) -> None:
    before = list(range(tokens))
    found, length = fit_to_context(before, most, longest=100, width=16)
    assert length == answer
    assert found == [0, *before[tokens - kept + 1 :]]


def test_bos_stays() -> None:
    assert cut_left([0, 1, 2, 3], 4) == [0, 1, 2, 3]
    assert cut_left([0, 1, 2, 3], 2) == [0, 3]
    assert cut_left([0, 1, 2, 3], -5) == [0]


def test_spaces_go_to_the_continuation() -> None:
    assert split_spaces("Sort: ", "fig") == ("Sort:", " fig")
    assert split_spaces("  ", "fig") == ("", "  fig")
    assert split_spaces("", "fig") == ("", "fig")


def test_a_question_that_comes_again_gets_the_next_seed() -> None:
    assert distinct_seeds([5, 5, 7, 5, 5], ["a", "b", "c", "a", "a"]) == [5, 5, 7, 6, 7]
