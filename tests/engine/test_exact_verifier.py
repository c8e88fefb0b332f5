"""Exact verification: whatever the drafts say, the answer is what the causal pass writes greedily."""

import json
import re
from typing import Any

import pytest

from engine.test_verifier import WORDS, slipping
from engine.tiny import CANVAS
from gesso.engine.engine import Engine
from gesso.errors import OptionError

LONG: dict[str, Any] = {"max_new_tokens": 2 * CANVAS + 3, "ignore_eos": True}


@pytest.mark.parametrize("steps", [1, 2, 12])
def test_the_answer_is_the_causal_pass_s_own(tiny: Engine, steps: int) -> None:
    greedy = tiny.generate("hi", seed=1, mode="ar", top_k=1, **LONG)
    for seed in range(3):
        exact = tiny.generate("hi", seed=seed, verify="exact", max_denoising_steps=steps, **LONG)
        assert exact.token_ids == greedy.token_ids
        assert exact.rejected_tokens == sum(exact.verify_rounds) > 0


def test_it_ends_where_the_causal_pass_does(tiny: Engine) -> None:
    said = tiny.generate("hi", seed=1, mode="ar", top_k=1, **LONG).token_ids
    end = said[CANVAS + 2]
    exact = tiny.generate("hi", seed=2, verify="exact", max_new_tokens=3 * CANVAS, eos_token_ids=(end,))
    assert exact.finish_reason == "stop"
    assert exact.token_ids == said[: said.index(end) + 1]


def test_a_token_that_is_wrong_is_corrected_whatever_the_denoiser_insists_on() -> None:
    engine, _ = slipping(1, " grape", stubborn=True)
    assert engine.generate("hi", seed=1, verify=3).text != WORDS
    exact = engine.generate("hi", seed=1, verify="exact")
    assert (exact.text, exact.verify_rounds, exact.rejected_tokens) == (WORDS, (1,), 1)


def test_an_end_that_comes_too_early_is_corrected() -> None:
    engine, _ = slipping(3, None, stubborn=True)
    assert engine.generate("hi", seed=1, verify="exact").text == WORDS


def test_what_is_right_costs_the_last_pass_alone() -> None:
    engine, _ = slipping(7, " grape", words="pear fig")
    plain, exact = (engine.generate("hi", seed=1, verify=rounds) for rounds in (0, "exact"))
    assert (exact.text, exact.verify_rounds) == (plain.text, (0,))
    assert exact.denoising_steps == (plain.denoising_steps[0] + 1,)


def test_a_round_takes_few_steps(tiny: Engine) -> None:
    exact = tiny.generate("hi", seed=1, verify="exact", max_new_tokens=CANVAS, ignore_eos=True)
    (rounds,), (steps,) = exact.verify_rounds, exact.denoising_steps
    assert steps <= 12 + 1 + rounds * (3 + 1)


def test_a_threshold_lets_near_ties_stand(tiny: Engine) -> None:
    plain = tiny.generate("hi", seed=1, **LONG)
    exact = tiny.generate("hi", seed=1, verify="exact", verify_threshold=1e9, **LONG)
    assert exact.token_ids == plain.token_ids


def test_pins_are_kept_and_what_stands_before_them_is_not_judged(tiny: Engine) -> None:
    template = [300, None, 301, None, None, 302]
    plain = tiny.generate("hi", seed=1, canvas=template, max_new_tokens=CANVAS, ignore_eos=True)
    exact = tiny.generate("hi", seed=1, canvas=template, max_new_tokens=CANVAS, ignore_eos=True, verify="exact")
    assert exact.token_ids[:6] == plain.token_ids[:6]
    behind = tiny.generate(
        "hi", seed=1, verify="exact", logprobs=1, canvas=template, max_new_tokens=CANVAS, ignore_eos=True
    )
    assert behind.token_ids == exact.token_ids
    assert all(entry.top[0][0] == entry.token for entry in behind.logprobs[6:])
    assert sum(exact.verify_rounds) > 0


@pytest.mark.parametrize(("verify", "template"), [("exact", [None, None, 300, None, 301]), ("auto", None)])
def test_what_an_answer_begins_with_is_judged_as_if_it_stood_in_the_prompt(
    tiny: Engine, verify: str, template: list[int | None] | None
) -> None:
    ids, prefix = [2, *tiny.tokenizer.encode("hi")], tiny.tokenizer.encode("1 2 3")
    for seed in range(4):
        options: dict[str, Any] = {"seed": seed, "verify": verify, "canvas": template, "ignore_eos": True}
        begun = tiny.generate(ids, begin="1 2 3", max_new_tokens=len(prefix) + CANVAS, **options)
        told = tiny.generate([*ids, *prefix], max_new_tokens=CANVAS, **options)
        assert begun.token_ids == (*prefix, *told.token_ids)
        assert (begun.denoising_steps, begun.verify_rounds) == (told.denoising_steps, told.verify_rounds)


def test_constraints_hold(tiny: Engine) -> None:
    options: dict[str, Any] = {"max_new_tokens": 3 * CANVAS, "verify": "exact"}
    for seed in range(3):
        text = tiny.generate("hi", seed=seed, regex="[a-c]{9,14}x", **options).text
        assert re.fullmatch("[a-c]{9,14}x", text)
        assert isinstance(json.loads(tiny.generate("hi", seed=seed, json_object=True, **options).text), dict)


def test_what_a_constraint_leaves_is_the_causal_pass_s_own(tiny: Engine) -> None:
    options: dict[str, Any] = {"regex": r"(.|\n){1,60}", "max_new_tokens": 3 * CANVAS}
    greedy = tiny.generate("hi", mode="ar", top_k=1, **options)
    for seed in range(2):
        assert tiny.generate("hi", seed=seed, verify="exact", **options).text == greedy.text


def test_log_probabilities_are_those_of_what_is_written(tiny: Engine) -> None:
    exact = tiny.generate("hi", seed=1, verify="exact", logprobs=1, max_new_tokens=CANVAS, ignore_eos=True)
    assert [entry.token for entry in exact.logprobs] == list(exact.token_ids)
    assert all(len(entry.top) == 1 and entry.top[0][0] == entry.token for entry in exact.logprobs)


def test_mode_ar_is_exact_as_it_is(tiny: Engine) -> None:
    plain, exact = (tiny.generate("hi", seed=3, mode="ar", max_new_tokens=5, verify=asked) for asked in (0, "exact"))
    assert plain.token_ids == exact.token_ids


@pytest.mark.parametrize(
    "option",
    [{"guidance_scale": 2.0}, {"logit_bias": {5: 1.0}}, {"presence_penalty": 1.0}, {"repetition_penalty": 1.1}],
)
def test_what_the_causal_pass_does_not_know_of_is_refused_or_has_its_way(tiny: Engine, option: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=f"^{next(iter(option))} must be left out beside verify"):
        tiny.generate("hi", verify="exact", **option)
    defaults = tiny.defaults.override(verify="exact")
    assert defaults.override(**option).verify == 0, "a checkpoint's wish, not the request's"
    assert defaults.override(temperature=1.0).verify == "exact"


def test_penalties_that_look_at_nothing_go_with_it(tiny: Engine) -> None:
    options: dict[str, Any] = {"seed": 1, "verify": "exact", "max_new_tokens": CANVAS}
    plain, asked = (
        tiny.generate("hi", **options, **given).token_ids
        for given in ({}, {"presence_penalty": 1.0, "penalty_window": 0})
    )
    assert plain == asked
