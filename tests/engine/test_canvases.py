"""The canvases of one request: how many steps each takes, and what rounds keep of the first."""

from typing import Any

import torch

from engine.tiny import CANVAS
from gesso.diffusion.canvas_state import Pins
from gesso.engine.engine import Engine, Request
from gesso.engine.events import DenoisingFrame

FREE = torch.zeros(CANVAS, dtype=torch.bool)


def test_canvases_behind_a_given_text_take_all_steps(tiny: Engine) -> None:
    options: dict[str, Any] = {"max_new_tokens": 3 * CANVAS, "max_denoising_steps": 12, "seed": 1, "ignore_eos": True}
    begun = tiny.stream("hi", start_canvas=[20] * CANVAS, strength=0.25, stopping="last_step", **options)
    frames = [event for event in begun if isinstance(event, DenoisingFrame)]
    assert [len([f for f in frames if f.canvas == number]) for number in range(3)] == [3, 12, 12]
    first = [next(f for f in frames if f.canvas == number) for number in range(3)]
    assert [frame.max_denoising_steps for frame in first] == [3, 12, 12]
    assert first[0].temperature < first[1].temperature == first[2].temperature


def test_a_round_is_a_canvas_of_the_same_whole_one(tiny: Engine) -> None:
    state = tiny.start(Request("hi", {"canvas_width": "need", "max_new_tokens": CANVAS}))
    again = state.canvases.make_round(state.canvas, Pins(FREE.long(), FREE, FREE, ()), 0)
    assert again.info.canvas_length == state.canvas.info.canvas_length == CANVAS


def test_a_round_behind_a_given_text_takes_all_steps(tiny: Engine) -> None:
    """It starts from noise."""
    options = {"start_canvas": [20] * CANVAS, "strength": 0.25, "max_denoising_steps": 12, "max_new_tokens": CANVAS}
    state = tiny.start(Request("hi", options))
    assert state.canvas.rules.max_denoising_steps == 3
    pins = Pins(FREE.long(), FREE, FREE, ())
    assert state.canvases.make_round(state.canvas, pins, 0).rules.max_denoising_steps == 12
    assert state.canvases.make_round(state.canvas, pins, 0, 5).rules.max_denoising_steps == 5


def test_a_token_of_a_given_text_that_a_bias_keeps_out_is_not_written(tiny: Engine) -> None:
    """A sampler that keeps what is given holds it for decoded."""
    given = [300 + place for place in range(CANVAS)]
    options: dict[str, Any] = {"start_canvas": given, "strength": 0.3, "sampler": "remdm", "ignore_eos": True}
    options |= {"seed": 1, "max_new_tokens": CANVAS}
    kept = set(given).intersection(tiny.generate("hi", **options).token_ids)
    assert len(kept) > 2
    assert kept.isdisjoint(tiny.generate("hi", logit_bias=dict.fromkeys(kept, -100.0), **options).token_ids)
