"""What the engine promises holds with every sampler: constraints, seeds, neighbours, verification, token by token."""

import json

import jsonschema
import pytest

from engine.tiny import CANVAS
from gesso.diffusion.samplers import SAMPLERS
from gesso.diffusion.schedules import SCHEDULES
from gesso.diffusion.stopping import STOPPING_RULES
from gesso.engine.engine import Engine, Request

SCHEMA = {"type": "array", "items": {"type": "integer", "minimum": -5, "maximum": 12}, "minItems": 2, "maxItems": 5}


@pytest.mark.parametrize("sampler", SAMPLERS.names)
def test_an_answer_under_a_schema_validates(tiny: Engine, sampler: str) -> None:
    for seed in range(3):
        result = tiny.generate(
            "hi", seed=seed, json_schema=SCHEMA, sampler=sampler, max_new_tokens=4 * CANVAS, max_denoising_steps=3
        )
        jsonschema.validate(json.loads(result.text), SCHEMA)


@pytest.mark.parametrize("sampler", SAMPLERS.names)
def test_seeds_reproduce_beside_neighbours_too(tiny: Engine, sampler: str) -> None:
    settings = {"sampler": sampler, "max_new_tokens": 2 * CANVAS, "max_denoising_steps": 4, "ignore_eos": True}
    alone = [tiny.generate("hi", seed=seed, **settings) for seed in (1, 2)]  # type: ignore[arg-type]
    assert alone[0].token_ids != alone[1].token_ids
    together = tiny.generate_batch([Request("hi", {"seed": seed, **settings}) for seed in (1, 2)])
    assert [result.token_ids for result in together] == [result.token_ids for result in alone]


@pytest.mark.parametrize("sampler", SAMPLERS.names)
def test_the_last_step_ends_a_canvas_that_never_settles(tiny: Engine, sampler: str) -> None:
    result = tiny.generate("hi", seed=0, sampler=sampler, max_new_tokens=CANVAS, max_denoising_steps=5, ignore_eos=True)
    assert len(result.token_ids) == CANVAS
    assert result.denoising_steps[0] <= 5


@pytest.mark.parametrize("schedule", SCHEDULES.names)
def test_schedules_reach_the_steps(tiny: Engine, schedule: str) -> None:
    steps = tiny.generate("hi", seed=0, schedule=schedule, max_new_tokens=CANVAS, max_denoising_steps=3)
    assert steps.denoising_steps


@pytest.mark.parametrize("stopping", STOPPING_RULES.names)
def test_stopping_rules_end_canvases(tiny: Engine, stopping: str) -> None:
    result = tiny.generate("hi", seed=0, stopping=stopping, max_new_tokens=CANVAS, max_denoising_steps=6)
    assert 1 <= result.denoising_steps[0] <= 6
    eager = {"prophet": {"gap_early": 0.0, "gap_late": 0.0}, "deadline": {"canvas_seconds": 1e-9}}.get(stopping)
    if eager is not None:
        at_once = tiny.generate("hi", seed=0, stopping=stopping, max_denoising_steps=6, max_new_tokens=CANVAS, **eager)
        assert at_once.denoising_steps == (1,)
