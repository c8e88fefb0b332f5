"""Canvases that have not settled start again from noise."""

from typing import Any

import pytest
import torch
from diffusion.reference import prediction, random_logits

from engine.tiny import CANVAS
from gesso.diffusion.canvas_state import CanvasState, DenoisingRules
from gesso.diffusion.samplers import SAMPLERS
from gesso.diffusion.step import CanvasShape
from gesso.diffusion.stopping.last_step import LastStep
from gesso.engine.engine import Engine, Request
from gesso.engine.events import DenoisingFrame
from gesso.train.reinforce.rollout import policy_rules

NEVER: dict[str, Any] = {"stopping": "last_step", "max_new_tokens": CANVAS, "seed": 3}
"""No canvas settles."""


def frames_of(engine: Engine, **options: Any) -> list[DenoisingFrame]:
    return [event for event in engine.stream("hi", **options) if isinstance(event, DenoisingFrame)]


@pytest.mark.parametrize(
    ("most", "restart", "steps"), [(12, 4, 12), (12, 5, 10), (12, 12, 12), (12, 30, 12), (12, None, 12), (3, 1, 3)]
)
def test_attempts_are_whole_and_all_count(tiny: Engine, most: int, restart: int | None, steps: int) -> None:
    frames = frames_of(tiny, **NEVER, max_denoising_steps=most, restart_steps=restart)
    assert [frame.step for frame in frames] == list(range(1, steps + 1))
    attempt = min(restart or most, most)
    heats = [frame.temperature for frame in frames_of(tiny, **NEVER, max_denoising_steps=attempt)]
    assert [frame.temperature for frame in frames] == heats * (steps // attempt)


def test_the_first_attempt_is_a_canvas_of_so_many_steps(tiny: Engine) -> None:
    """The same tokens by the same random numbers; later attempts draw others."""
    once = frames_of(tiny, **NEVER, max_denoising_steps=4)
    again = frames_of(tiny, **NEVER, max_denoising_steps=12, restart_steps=4)
    assert [frame.tokens for frame in again[:4]] == [frame.tokens for frame in once]
    assert [frame.canvas_tokens for frame in again[:3]] == [frame.canvas_tokens for frame in once[:3]]
    starts = [frame.canvas_tokens for frame in again[3:11:4]]
    assert starts[0] != once[3].canvas_tokens
    assert starts[0] != starts[1]


def test_a_canvas_that_settles_does_not_start_again(tiny: Engine) -> None:
    settles: dict[str, Any] = {"max_new_tokens": CANVAS, "confidence_threshold": 1e6, "stability_threshold": 0}
    result = tiny.generate("hi", seed=3, max_denoising_steps=12, restart_steps=4, **settles)
    assert result.denoising_steps == (1,)
    assert result.converged == (True,)


def test_steps_are_told_and_the_same_in_company(tiny: Engine) -> None:
    options = {**NEVER, "max_denoising_steps": 12, "restart_steps": 5}
    alone = tiny.generate("hi", **options)
    assert alone.denoising_steps == (10,)
    assert alone.converged == (False,)
    requests = [Request("hello", NEVER), Request("hi", options), Request("hi", {**options, "seed": 4})]
    company = tiny.generate_batch(requests)
    assert company[1].token_ids == alone.token_ids


@pytest.mark.parametrize(("strength", "steps"), [(None, 12), (0.5, 6), (1.0, 10)])
def test_a_canvas_from_a_given_text_does_not_start_again(tiny: Engine, strength: float | None, steps: int) -> None:
    """With a strength of 1 nothing of the text is left."""
    given: dict[str, Any] = {"start_canvas": [20] * CANVAS, "strength": strength}
    frames = frames_of(tiny, **NEVER, **given, max_denoising_steps=12, restart_steps=5)
    assert len(frames) == steps


def test_pins_hold_in_every_attempt(tiny: Engine) -> None:
    held = [None, 20, None, 21]
    frames = frames_of(tiny, **NEVER, canvas=held, max_denoising_steps=9, restart_steps=3)
    assert len(frames) == 9
    for frame in frames:
        assert [frame.canvas_tokens[place] for place in (1, 3)] == [20, 21]


def test_a_budget_of_time_is_one_for_all_attempts(tiny: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter(range(1000))
    monkeypatch.setattr("gesso.diffusion.stopping.deadline.time.monotonic", lambda: float(next(seconds)))
    options = {**NEVER, "stopping": "deadline", "canvas_seconds": 7.0, "confidence_threshold": 0.0}
    result = tiny.generate("hi", **options, max_denoising_steps=40, restart_steps=4)
    assert result.denoising_steps == (7,)


def test_verified_rounds_take_their_own_few_steps(tiny: Engine) -> None:
    options = {**NEVER, "max_denoising_steps": 8, "ignore_eos": True}
    plain = tiny.generate("hi", **options, verify="exact")
    restarted = tiny.generate("hi", **options, verify="exact", restart_steps=4)
    assert restarted.token_ids == plain.token_ids  # the causal pass's own in both


def test_reinforcement_draws_one_attempt(tiny: Engine) -> None:
    config = tiny.defaults.override(max_denoising_steps=12, restart_steps=5)
    rules = policy_rules(config)
    assert (rules.max_denoising_steps, rules.restart_steps, rules.total_steps) == (5, None, 5)


@pytest.mark.parametrize("name", SAMPLERS.names)
def test_an_attempt_begins_as_a_new_canvas_does(name: str) -> None:
    """With nothing of the attempt before but the generator, from where it is."""
    rules = DenoisingRules(6, sampler=SAMPLERS.make(name, None, {}), stopping=LastStep(), restart_steps=2)
    state = CanvasState(rules, CanvasShape(6, 23), torch.Generator().manual_seed(1))
    for step in range(3):
        state.advance(prediction(random_logits(step, 6, 23, 1.0)), torch.zeros(6, 4))
    generator = torch.Generator()
    generator.set_state(state.generator.get_state())
    state._restart()
    fresh = CanvasState(rules, CanvasShape(6, 23), generator)
    assert state.canvas_C.equal(fresh.canvas_C)
    assert state.self_conditioning_CD is None
    assert (state.steps, state.attempt_step, state.temperature) == (3, 0, fresh.temperature)
    logits_CV = random_logits(9, 6, 23, 1.0)
    for canvas in (state, fresh):
        canvas.advance(prediction(logits_CV), torch.zeros(6, 4))
    assert state.canvas_C.equal(fresh.canvas_C)
    assert state.argmax_C.equal(fresh.argmax_C)
