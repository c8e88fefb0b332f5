"""Probabilities of given answers against the model's own passes."""

import math
from typing import Any

import pytest
import torch

from gesso.control.answers import MOST_OPTIONS
from gesso.control.choose import ChooseResult, choose
from gesso.control.job import run_job
from gesso.engine.engine import Engine, Request
from gesso.errors import OptionError

PROMPT = "Sort: pear, fig"


def ask(engine: Engine, options: Any, **settings: Any) -> ChooseResult:
    return run_job(engine, choose(engine, PROMPT, options, **settings))


def test_the_causal_share_is_what_reading_the_answer_gives(tiny: Engine) -> None:
    result = ask(tiny, ["fig", "pear, fig"], seed=1)
    prompt = tiny.start(Request(PROMPT, {})).prompt.ids
    for choice in result.choices:
        answer = [*tiny.tokenizer.encode(choice.text), tiny.end_of_turn]
        cache = tiny.model.new_cache(batch_size=1)
        hidden = tiny.model.encode(torch.tensor([[*prompt, *answer]]), cache)
        scores = tiny.model.logits(hidden)[0].log_softmax(dim=-1)
        expected = sum(float(scores[len(prompt) - 1 + i, token]) for i, token in enumerate(answer))
        assert choice.causal_logprob == pytest.approx(expected, abs=1e-3)
        assert choice.tokens == len(answer)
    whole = sum(math.exp(choice.causal_logprob) for choice in result.choices)
    assert [c.causal for c in result.choices] == pytest.approx(
        [math.exp(c.causal_logprob) / whole for c in result.choices], rel=1e-6
    )


def test_the_denoising_share_is_of_the_probe(tiny: Engine) -> None:
    options = ["fig", "pear"]
    result = ask(tiny, options, seed=4)
    probe = [(*tiny.tokenizer.encode(option), tiny.end_of_turn) for option in options]
    expected = tiny.generate(PROMPT, seed=4, probe=probe, max_denoising_steps=1).probe_logprobs
    assert [choice.denoising_logprob for choice in result.choices] == pytest.approx(list(expected), abs=1e-5)
    assert sum(choice.denoising for choice in result.choices) == pytest.approx(1.0)
    assert result.seed == 4
    assert not result.calibrated


def test_more_answers_than_a_round_takes(tiny: Engine) -> None:
    options = [f"fig{number}" for number in range(19)]
    result = ask(tiny, options, seed=1)
    assert [choice.text for choice in result.choices] == options
    assert sum(choice.causal for choice in result.choices) == pytest.approx(1.0)
    alone = ask(tiny, options[:2], seed=1)
    assert [c.causal_logprob for c in alone.choices] == pytest.approx(
        [c.causal_logprob for c in result.choices[:2]], abs=1e-4
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["one"], "two answers at least"),
        ([], "two answers at least"),
        ([f"{number}" for number in range(MOST_OPTIONS + 1)], f"{MOST_OPTIONS} at most"),
        (["a", ""], "an answer is empty"),
        (["a", "b", "a"], "'a' is given twice"),
        ("ab", "must be a list"),
        (None, "must be a list"),
        (5, "must be a list"),
        (["a", 5], "must be a list"),
        (["a", "x" * 40], "the canvas 8"),
        (["a", "<turn|>b"], "'<turn|>b' holds <turn|>"),
    ],
)
def test_answers_that_cannot_be_compared_are_refused(tiny: Engine, options: Any, message: str) -> None:
    with pytest.raises(OptionError, match=f"^options.*{message}"):
        ask(tiny, options)


def test_answers_may_come_one_after_the_other(tiny: Engine) -> None:
    found = ask(tiny, (answer for answer in ["a", "b"]))
    assert [choice.text for choice in found.choices] == ["a", "b"]


@pytest.mark.parametrize("length", ["8", 0, 1.5])
def test_a_canvas_of_no_length_is_refused(tiny: Engine, length: Any) -> None:
    with pytest.raises(OptionError, match=r"^canvas_length must be"):
        ask(tiny, ["a", "b"], canvas_length=length)


@pytest.mark.parametrize("name", ["temperature", "logit_bias", "sampler", "max_new_tokens", "mode", "stop"])
def test_an_option_that_changes_nothing_is_refused(tiny: Engine, name: str) -> None:
    with pytest.raises(OptionError, match=f"^{name} changes nothing where given answers are scored"):
        ask(tiny, ["a", "b"], **{name: 1})


def test_mini_is_sure_of_what_it_knows() -> None:
    import gesso

    engine = gesso.load("mini")
    job = choose(engine, "Sort: pear, fig, apple, kiwi", ["pear, fig, apple, kiwi", "apple, fig, kiwi, pear"], seed=0)
    result = run_job(engine, job)
    assert result.best.text == "apple, fig, kiwi, pear"
    assert result.best.causal > 0.9
    assert result.best.denoising > 0.5
