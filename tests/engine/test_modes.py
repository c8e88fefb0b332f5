"""Writing token by token, canvases of other widths, and stopping where the answer ends."""

import json
import re
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.tiny import CANVAS, reciter
from gesso.diffusion.samplers import SAMPLERS, Sampler, draw_noise
from gesso.diffusion.step import CanvasInfo, StepInfo
from gesso.engine.engine import Engine, Request
from gesso.engine.events import BlockCommitted
from gesso.errors import OptionError
from gesso.generation import NARROWEST, STRATEGIES

PROMPT = "Sort: pear, fig"
AR: dict[str, Any] = {"mode": "ar", "max_new_tokens": 12}


# Token by token


def test_the_likeliest_tokens_are_those_of_the_causal_pass(tiny: Engine) -> None:
    result = tiny.generate(PROMPT, temperature=0, ignore_eos=True, **AR)
    ids = list(tiny.start(Request(PROMPT, {})).prompt.ids)
    for token in result.token_ids:
        scores = tiny.model.logits(tiny.model.encode(torch.tensor([ids]), tiny.model.new_cache(batch_size=1)))
        assert token == int(scores[0, -1].argmax())
        ids.append(token)
    assert result.completion_tokens == 12
    assert result.denoising_steps == (1,) * 12
    assert result.finish_reason == "length"


def test_log_probabilities_cost_no_further_pass(tiny: Engine) -> None:
    plain = tiny.generate(PROMPT, seed=3, **AR)
    told = tiny.generate(PROMPT, seed=3, logprobs=2, **AR)
    assert told.token_ids == plain.token_ids
    assert [entry.token for entry in told.logprobs] == list(told.token_ids)
    greedy = tiny.generate(PROMPT, temperature=0, logprobs=1, **AR)
    assert all(entry.top[0][0] == entry.token for entry in greedy.logprobs)


def test_tokens_of_several_requests_are_sampled_at_once(tiny: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    requests = [
        Request(PROMPT, {"seed": i, "max_new_tokens": 5 + i, "ignore_eos": True, "mode": "ar"}) for i in range(3)
    ]
    solo = [tiny.generate_batch([request])[0].token_ids for request in requests]
    sampled, sample = list[int](), tiny.runner.sample
    monkeypatch.setattr(tiny.runner, "sample", lambda batch: (sampled.append(len(batch.items)), sample(batch))[1])
    assert [result.token_ids for result in tiny.generate_batch(requests)] == solo
    assert sampled == [3] * 5 + [2, 1]


@pytest.mark.numbers
def test_neighbours_change_nothing(tiny: Engine) -> None:
    requests = [
        Request(f"number {i}", {"seed": i, "max_new_tokens": 20, **({"mode": "ar"} if i % 2 else {})}) for i in range(6)
    ]
    together = tiny.generate_batch(requests)
    assert [r.token_ids for r in together] == [tiny.generate_batch([request])[0].token_ids for request in requests]


def with_defaults(engine: Engine, **changes: Any) -> Engine:
    return Engine(engine.runner, engine.tokenizer, engine.template, engine.defaults.override(**changes))


@pytest.mark.parametrize("role", ["sampler", "schedule", "stopping"])
def test_what_denoises_a_canvas_is_refused_token_by_token(tiny: Engine, role: str) -> None:
    name = STRATEGIES[role].default
    with pytest.raises(OptionError, match=f"{role} must be left out with mode ar") as refusal:
        tiny.generate(PROMPT, mode="ar", **{role: name})
    assert refusal.value.hint is None
    own = with_defaults(tiny, mode="ar")
    with pytest.raises(OptionError, match=f"{role} must be left out with mode ar") as refusal:
        own.generate(PROMPT, **{role: name})
    assert refusal.value.hint == "the model has mode ar by itself: give mode canvas as well"
    assert own.generate(PROMPT, mode="canvas", max_new_tokens=4, **{role: name}).canvases == 1


@pytest.mark.parametrize(
    "option", [{"entropy_bound": 0.2}, {"restart_steps": 4}, {"canvas_width": "need"}, {"stop_at_end": True}]
)
def test_how_a_canvas_is_denoised_is_refused_token_by_token(tiny: Engine, option: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="must be left out with mode ar") as refusal:
        tiny.generate(PROMPT, mode="ar", **option)
    assert refusal.value.option == next(iter(option))
    assert with_defaults(tiny, **option).generate(PROMPT, mode="ar", max_new_tokens=4).completion_tokens <= 4


def test_bounds_of_canvases_hold_token_by_token(tiny: Engine) -> None:
    result = tiny.generate(PROMPT, mode="ar", max_denoising_steps=1, canvas_length=8, max_new_tokens=4)
    assert result.token_ids == tiny.generate(PROMPT, mode="ar", max_new_tokens=4).token_ids


@pytest.mark.parametrize("strategy", ["dynamic", "static", "sequential"])
def test_a_checkpoints_sampler_of_quotas_draws_every_token(tiny: Engine, strategy: str) -> None:
    asked = {"temperature": 0, "ignore_eos": True, **AR}
    own = with_defaults(tiny, sampler="low_confidence", remasking_strategy=strategy)
    assert own.generate(PROMPT, **asked).token_ids == tiny.generate(PROMPT, **asked).token_ids


def test_a_token_that_no_sampler_accepts_is_the_likeliest(tiny: Engine) -> None:
    @SAMPLERS.register("accepts_nothing")
    @dataclass(frozen=True)
    class AcceptsNothing(Sampler):
        def start(self, canvas: CanvasInfo, rng: torch.Generator) -> tuple[Tensor, None]:
            return draw_noise(canvas, rng), None

        def step(self, info: StepInfo, canvas_C: Tensor, prediction: Any, state: Any, rng: torch.Generator) -> Any:
            return draw_noise(info.canvas, rng), torch.zeros(info.width, dtype=torch.bool), None

    try:
        own = with_defaults(tiny, sampler="accepts_nothing")
        found = own.generate(PROMPT, seed=1, ignore_eos=True, **AR)
    finally:
        SAMPLERS.unregister("accepts_nothing")
    assert found.token_ids == tiny.generate(PROMPT, temperature=0, ignore_eos=True, **AR).token_ids


def test_constraints_hold(tiny: Engine) -> None:
    for seed in range(4):
        assert re.fullmatch("[a-c]{2,9}x", tiny.generate("hi", seed=seed, regex="[a-c]{2,9}x", **AR).text)
    result = tiny.generate("hi", seed=1, json_object=True, mode="ar", max_new_tokens=30)
    assert isinstance(json.loads(result.text), dict)


def test_every_token_is_told_as_it_comes(tiny: Engine) -> None:
    events = list(tiny.stream(PROMPT, seed=2, **AR))
    blocks = [event for event in events if isinstance(event, BlockCommitted)]
    assert [len(block.tokens) for block in blocks] == [1] * len(blocks)
    assert len(events) == len(blocks) + 1


# Widths


def widths(engine: Engine, **options: Any) -> list[int]:
    """Of the canvases of a long answer."""
    stream = engine.stream("hi", seed=1, frames=True, ignore_eos=True, max_denoising_steps=1, **options)
    found: dict[int, int] = {}
    for event in stream:
        if not isinstance(event, BlockCommitted) and hasattr(event, "accepted"):
            found[event.canvas] = len(event.accepted)
    return list(found.values())


def test_canvases_are_as_wide_as_they_are_asked_to_be() -> None:
    engine = reciter("pear fig " * 60, canvas=64)
    assert widths(engine, max_new_tokens=100) == [64, 64]
    assert widths(engine, max_new_tokens=100, canvas_width="need") == [64, 36]
    assert widths(engine, max_new_tokens=66, canvas_width="need") == [64, NARROWEST]
    assert widths(engine, max_new_tokens=150, canvas_width="auto") == [8, 16, 32, 64, 30]


def test_a_narrow_canvas_is_never_widened(tiny: Engine) -> None:
    assert CANVAS <= NARROWEST
    assert set(widths(tiny, max_new_tokens=3 * CANVAS - 3, canvas_width="auto")) == {CANVAS}


# Stopping


def test_it_never_takes_more_steps(tiny: Engine) -> None:
    for seed in range(5):
        options = {"seed": seed, "max_new_tokens": CANVAS, "confidence_threshold": 0.5}
        shorter = tiny.generate(PROMPT, stop_at_end=True, **options)
        assert sum(shorter.denoising_steps) <= sum(tiny.generate(PROMPT, **options).denoising_steps)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "fast"}, "mode must be one of canvas, ar"),
        ({"canvas_width": "wide"}, "canvas_width must be one of full, need, auto"),
        ({"stop_at_end": 1}, "stop_at_end must be true or false"),
        ({"mode": "ar", "canvas": [None, 5]}, "mode ar has no canvas: leave canvas out"),
        ({"mode": "ar", "start_canvas": [5] * CANVAS}, "leave start_canvas out"),
        ({"mode": "ar", "probe": [[5]]}, "leave probe out"),
        ({"canvas_width": "auto", "canvas": [None, 5]}, "canvas_width auto does not go with canvas"),
    ],
)
def test_contradictions_are_refused(tiny: Engine, options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        tiny.generate("hi", **options)
