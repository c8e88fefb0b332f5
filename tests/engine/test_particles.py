"""Particles: what is copied, what is counted, and what stays as it would be alone."""

import dataclasses
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from torch import Tensor

from engine.tiny import Reciter, make_tiny_folder, reciter, tiny_recipe
from gesso.api import load
from gesso.config import ModelConfig
from gesso.engine.engine import Engine
from gesso.engine.particles import ParticlesResult, particles
from gesso.errors import OptionError
from gesso.models.hf_generation_config import OWN_FILE
from gesso.nn.vocabulary import VocabularyPass
from gesso.tasks.vocabulary import build_tokenizer
from gesso.text.tokenizer import Tokenizer

PROMPT = "Sort: pear, fig"
EVERY_STEP = {"max_denoising_steps": 9, "confidence_threshold": 0.0, "stability_threshold": 40}


def run(engine: Engine, **options: Any) -> ParticlesResult:
    return particles(engine, PROMPT, **{"number": 4, "seed": 5, **EVERY_STEP, **options})


def test_without_weights_each_is_the_answer_of_its_seed(tiny: Engine) -> None:
    found = run(tiny, reward_scale=0)
    alone = [tiny.generate(PROMPT, seed=seed, max_new_tokens=8, **EVERY_STEP).token_ids for seed in (5, 6, 7, 8)]
    assert [result.token_ids for result in found.results] == alone
    assert (found.denoising_passes, found.batches, found.resamplings, found.copies) == (36, 9, 0, 0)
    assert found.passed is None


def test_the_promising_one_takes_the_others_places(tiny: Engine) -> None:
    wanted = tiny.tokenizer.decode(list(tiny.generate(PROMPT, seed=6, max_new_tokens=8, **EVERY_STEP).token_ids))
    calls: list[str] = []

    def score(text: str) -> float:
        calls.append(text)
        return float(len(calls) % 4 == 2)  # the second particle, each time

    found = run(tiny, score=score, resample_every=3, reward_scale=100)
    assert wanted is not None
    assert found.resamplings >= 1
    assert found.copies >= 3
    assert (found.denoising_passes, found.batches) == (36, 9), "a copied canvas costs no pass"
    assert all(result.denoising_steps == (9,) for result in found.results)


def test_a_copy_goes_on_from_the_canvas_with_numbers_of_its_own(tiny: Engine) -> None:
    from gesso.engine.engine import Request
    from gesso.engine.engine_core import EngineCore

    states = [tiny.start(Request(PROMPT, {"seed": seed, "max_new_tokens": 8, **EVERY_STEP})) for seed in (1, 2)]
    core = EngineCore(tiny.runner, max_running=2, chunk=128)
    for state in states:
        core.scheduler.add(state)
    core.step()
    core.step()
    first, second = (state.canvas for state in states)
    assert not torch.equal(first.canvas_C, second.canvas_C)
    second.copy_from(first)
    assert torch.equal(first.canvas_C, second.canvas_C)
    assert first.self_conditioning_CD is second.self_conditioning_CD
    assert first.steps == second.steps
    before = first.canvas_C.clone()
    assert not torch.equal(first.draw_uniform(), second.draw_uniform())
    core.step()
    assert not torch.equal(first.canvas_C, second.canvas_C)
    assert before.shape == first.canvas_C.shape
    core.close()


def test_a_run_is_reproduced_by_its_seed(tiny: Engine) -> None:
    first, again = (run(tiny, resample_every=2) for _ in range(2))
    assert first.scores == again.scores
    assert [r.token_ids for r in first.results] == [r.token_ids for r in again.results]


def test_an_answer_that_is_good_enough_ends_the_run(tiny: Engine) -> None:
    found = run(tiny, score=lambda _: 1.0, enough=1.0, max_denoising_steps=6)
    assert found.passed
    assert found.best in found.results
    assert run(tiny, score=lambda _: 0.5, enough=1.0, max_denoising_steps=3).passed is False


def test_pins_hold_in_every_particle(tiny: Engine) -> None:
    pinned = [None, 9, None, None, 17]
    found = run(tiny, canvas=pinned, resample_every=1, reward_scale=50)
    assert found.copies > 0
    assert all((result.token_ids[1], result.token_ids[4]) == (9, 17) for result in found.results)


def test_a_constraint_holds_in_every_particle(tiny: Engine) -> None:
    found = run(tiny, regex="[ab]{2,4}", resample_every=1, reward_scale=50)
    assert len(found.results) == 4
    assert all(set(result.text) <= {"a", "b"} and 2 <= len(result.text) <= 4 for result in found.results)


@pytest.mark.parametrize(
    ("options", "option"),
    [
        ({"number": 1}, "number"),
        ({"number": "4"}, "number"),
        ({"resample_every": 2.5}, "resample_every"),
        ({"number": 257}, "number"),
        ({"resample_every": 0}, "resample_every"),
        ({"score": 5}, "score"),
        ({"reward_scale": -1.0}, "reward_scale"),
        ({"reward_scale": math.inf}, "reward_scale"),
        ({"max_new_tokens": 9}, "max_new_tokens"),
        ({"mode": "ar"}, "mode"),
        ({"verify": 1}, "verify"),
        ({"thinking_budget": 2}, "thinking_budget"),
        ({"reward_scale": 10**400}, "reward_scale"),
        ({"enough": "x"}, "enough"),
        ({"score": lambda _: None}, "score"),
        ({"score": lambda _: "high"}, "score"),
        ({"score": lambda _: 1 / 0}, "score"),
        ({"score": lambda _: 10**400}, "score"),
    ],
)
def test_refusals(tiny: Engine, options: dict[str, Any], option: str) -> None:
    with pytest.raises(OptionError) as caught:
        run(tiny, **options)
    assert caught.value.option == option


def test_what_is_no_engine_is_refused() -> None:
    with pytest.raises(OptionError, match=r"^engine must be what gesso.load returns, got 'mini'"):
        particles("mini", "hi")  # type: ignore[arg-type]


class Chain(Reciter):
    """A model of one position that walks among four tokens: what it says depends on what the canvas holds alone."""

    STEPS = torch.tensor(
        [[0.85, 0.05, 0.05, 0.05], [0.6, 0.3, 0.05, 0.05], [0.1, 0.5, 0.3, 0.1], [0.25, 0.25, 0.25, 0.25]]
    )
    REWARDS = (0.0, 0.2, 0.5, 1.0)

    def __init__(self, config: ModelConfig, tokens: Sequence[int]) -> None:
        super().__init__(config, [], 0)
        self.tokens = torch.tensor(tokens)

    def denoise_flat(self, canvas_N: Tensor, *_: Any) -> Tensor:
        known_N4 = canvas_N[:, None] == self.tokens
        # Noise is any token; all that are none of the four begin alike.
        return torch.where(known_N4.any(dim=1), known_N4.int().argmax(dim=1), 0)

    def predict(self, state_N: Tensor, _: Tensor, uniform_N: Tensor, *, mix: bool) -> VocabularyPass:  # type: ignore[override]
        drawn_N = (self.STEPS[state_N].cumsum(dim=1) <= uniform_N[:, None]).sum(dim=1).clamp(max=3)
        said_N, zeros = self.tokens[drawn_N], torch.zeros(len(state_N))
        return VocabularyPass(said_N, said_N, zeros, zeros, torch.zeros(len(state_N), 1))

    def law(self, steps: int) -> Tensor:
        """How likely each of the four is after some steps from noise of other tokens."""
        share = torch.tensor([1.0, 0.0, 0.0, 0.0])
        for _ in range(steps):
            share = share @ self.STEPS
        return share


def test_weighted_answers_are_of_the_tilted_distribution() -> None:
    recipe, tokenizer = tiny_recipe(), Tokenizer(build_tokenizer())
    words = [tokenizer.encode(word)[0] for word in ("a", "b", "c", "d")]
    chain: Any = Chain(dataclasses.replace(recipe.model, canvas_length=1), words)
    engine = Engine(chain, tokenizer, None, recipe.generation, "chain")
    rewards = {tokenizer.decode([word]): reward for word, reward in zip(words, Chain.REWARDS, strict=True)}
    law, scale, runs = chain.law(4), 2.0, 6
    target = law * (scale * torch.tensor(Chain.REWARDS)).exp()
    target /= target.sum()
    weighted, counted, resamplings = torch.zeros(4), torch.zeros(4), 0
    for seed in range(runs):
        run = particles(
            engine,
            [5],
            number=128,
            resample_every=1,
            reward_scale=scale,
            score=rewards.__getitem__,
            seed=10**6 * seed,
            max_new_tokens=1,
            ignore_eos=True,
            **{**EVERY_STEP, "max_denoising_steps": 4},
        )
        resamplings += run.resamplings
        assert sum(run.weights) == pytest.approx(1)
        for result, weight in zip(run.results, run.weights, strict=True):
            weighted[words.index(result.token_ids[0])] += weight / runs
            counted[words.index(result.token_ids[0])] += 1 / runs / 128
    assert resamplings
    assert (law - target).abs().max() > 0.2, "the tilt is seen"
    assert (weighted - target).abs().max() < 0.06, (weighted, target)
    assert (counted - target).abs().max() > 0.06, "without their weights the answers are of another distribution"


@pytest.mark.parametrize("scale", [0.0, 10.0])
@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf])
def test_a_score_that_is_not_finite_is_refused(tiny: Engine, score: float, scale: float) -> None:
    with pytest.raises(OptionError, match="a score times reward_scale must be a finite number") as caught:
        run(tiny, score=lambda _: score, reward_scale=scale, resample_every=2)
    assert caught.value.option == "score"


def test_a_score_that_weights_cannot_hold_is_refused(tiny: Engine) -> None:
    with pytest.raises(OptionError, match=r"got 1e\+308 times 10"):
        run(tiny, score=lambda _: 1e308)


def test_seeds_go_on_behind_the_largest(tiny: Engine) -> None:
    found = run(tiny, seed=2**63 - 1, reward_scale=0, number=2)
    assert {result.seed for result in found.results} == {2**63 - 1, 0}
    for seed in (-1, 2**63, "7", 1.5):
        with pytest.raises(OptionError, match="seed must be"):
            run(tiny, seed=seed)


def test_an_answer_is_one_canvas_where_nobody_says(tiny: Engine) -> None:
    assert run(tiny, max_new_tokens=None).scores == run(tiny).scores
    narrow = run(tiny, max_new_tokens=None, canvas_length=4)
    assert narrow.scores == run(tiny, max_new_tokens=4, canvas_length=4).scores


def test_a_checkpoint_that_writes_token_by_token_has_particles_too(tmp_path: Path) -> None:
    folder = make_tiny_folder(tmp_path)
    (folder / OWN_FILE).write_text('{"mode": "ar"}')
    engine = load(folder, "cpu")
    assert engine.defaults.mode == "ar"
    assert all(result.mode == "canvas" for result in run(engine).results)


@pytest.mark.parametrize("options", [{"begin": "fig"}, {"stop": ["f"]}, {"max_new_tokens": 3}])
def test_what_is_scored_on_the_way_is_the_answer_as_it_would_be(tiny: Engine, options: dict[str, Any]) -> None:
    """As `accept` sees it after the same steps of each seed."""
    score = Mock(return_value=0.0)
    found = run(tiny, number=2, score=score, resample_every=1, **options)
    seen = [call.args[0] for call in score.call_args_list]
    steps: tuple[list[str], list[str]] = ([], [])
    for seed, texts in zip((5, 6), steps, strict=True):
        asked = {"max_new_tokens": 8, **EVERY_STEP, **options, "seed": seed, "accept": texts.append}
        tiny.generate(PROMPT, **asked)
    assert seen == [text for pair in zip(*steps, strict=True) for text in pair]
    assert seen[-2:] == [result.text for result in found.results]


def test_a_call_of_a_function_is_scored_as_json() -> None:
    engine = reciter('<|tool_call>call:f{a:<|"|>fig<|"|>}<tool_call|>', canvas=32)
    score = Mock(return_value=0.0)
    run(engine, score=score, resample_every=1, number=2)
    seen = [call.args[0] for call in score.call_args_list]
    assert set(seen) == {json.dumps({"name": "f", "arguments": {"a": "fig"}})}
