from collections import Counter
from typing import Any

import pytest

from engine.tiny import CANVAS
from gesso.engine.engine import Engine

PROMPT = [2, 300, 301, 300, 302]
GREEDY: dict[str, Any] = {"temperature": 0, "ignore_eos": True}


@pytest.mark.parametrize("window", [None, 3, 0])
@pytest.mark.parametrize(("frequency", "presence"), [(0.5, 0.0), (0.0, 1.5), (-0.25, 2.0)])
def test_token_by_token_they_are_biases_of_what_is_written(
    tiny: Engine, frequency: float, presence: float, window: int | None
) -> None:
    options: dict[str, Any] = {**GREEDY, "mode": "ar"}
    penalties = {"frequency_penalty": frequency, "presence_penalty": presence, "penalty_window": window}
    found = tiny.generate(PROMPT, max_new_tokens=12, **options, **penalties).token_ids
    written: list[int] = []
    for _ in range(12):
        counted = Counter(written if window is None else written[max(0, len(written) - window) :])
        bias = {token: -frequency * times - presence for token, times in counted.items()}
        bias = {token: value for token, value in bias.items() if token not in tiny.tokenizer.special_ids}
        written += tiny.generate([*PROMPT, *written], max_new_tokens=1, logit_bias=bias, **options).token_ids
    assert list(found) == written


@pytest.mark.parametrize("mode", ["canvas", "ar"])
@pytest.mark.parametrize(
    "penalty",
    [{"frequency_penalty": 2.0}, {"frequency_penalty": 1.0, "presence_penalty": 2.0}, {"repetition_penalty": 3.0}],
)
def test_what_was_said_is_said_less(tiny: Engine, mode: str, penalty: dict[str, float]) -> None:
    options: dict[str, Any] = {**GREEDY, "mode": mode, "max_new_tokens": 3 * CANVAS}
    plain, penalised = (tiny.generate(PROMPT, seed=1, **options, **given).token_ids for given in ({}, penalty))
    assert len(plain) == len(penalised) == 3 * CANVAS
    assert len(set(penalised)) > len(set(plain))


def test_repetition_reads_the_prompt_and_the_others_do_not(tiny: Engine) -> None:
    options: dict[str, Any] = {**GREEDY, "mode": "ar", "max_new_tokens": 1}
    (first,) = tiny.generate(PROMPT, **options).token_ids
    # The prompt has what would be said; behind the same token the same is likeliest.
    prompt = [*PROMPT[:1], first, *PROMPT[2:]]
    (said,) = tiny.generate(prompt, **options).token_ids
    prompt = [*prompt[:1], said, *prompt[2:]]
    for name, value in (("frequency_penalty", 2.0), ("presence_penalty", 2.0)):
        assert tiny.generate(prompt, **{name: value}, **options).token_ids == tiny.generate(prompt, **options).token_ids


@pytest.mark.parametrize("mode", ["canvas", "ar"])
def test_special_tokens_are_not_counted(tiny: Engine, mode: str) -> None:
    """However often turns have ended before, this one may."""
    end = tiny.defaults.eos_token_ids[-1]
    prompt = [2, *(300, end) * 4, 301]
    options: dict[str, Any] = {"mode": mode, "temperature": 0, "seed": 3, "max_new_tokens": 4}
    biased = {"logit_bias": {end: 60.0}}
    plain = tiny.generate(prompt, **options, **biased)
    assert end in plain.token_ids
    penalised = tiny.generate(prompt, **options, **biased, repetition_penalty=10.0)
    assert end in penalised.token_ids


@pytest.mark.parametrize("stops", [(302,), (302, 8)])
def test_words_that_end_an_answer_are_counted_as_others(tiny: Engine, stops: tuple[int, ...]) -> None:
    options: dict[str, Any] = {"mode": "ar", "temperature": 0, "max_new_tokens": 2, "eos_token_ids": stops}
    prompt = [2, *(302,) * 4, 301]
    said = tiny.generate(prompt, logit_bias={302: 60.0}, **options).token_ids
    assert said == (302,)
    assert 302 not in tiny.generate(prompt, logit_bias={302: 60.0}, repetition_penalty=10.0, **options).token_ids


def test_the_causal_pass_does_not_judge_what_it_knows_nothing_of(tiny: Engine) -> None:
    options: dict[str, Any] = {"seed": 1, "max_new_tokens": 3 * CANVAS, "ignore_eos": True, "verify_threshold": 0.0}
    assert any(tiny.generate(PROMPT, verify="auto", **options).verify_rounds)
    assert tiny.generate(PROMPT, verify="auto", presence_penalty=2.0, **options).verify_rounds == ()


def test_neighbours_change_nothing(tiny: Engine) -> None:
    asked: list[dict[str, Any]] = [
        {"prompt": PROMPT, "seed": seed, "max_new_tokens": 2 * CANVAS, **penalty}
        for seed, penalty in enumerate(
            ({"frequency_penalty": 1.0}, {}, {"repetition_penalty": 1.4, "penalty_window": 5}, {"mode": "ar"})
        )
    ]
    together = tiny.generate_batch(asked)
    for given, result in zip(asked, together, strict=True):
        alone = dict(given)
        assert tiny.generate(alone.pop("prompt"), **alone).token_ids == result.token_ids
