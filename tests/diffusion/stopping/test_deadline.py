"""A canvas ends by the clock, or before by itself."""

import time
from dataclasses import replace

import pytest
import torch

from diffusion.reference import prediction
from gesso.diffusion.step import CanvasInfo, StepInfo
from gesso.diffusion.stopping.deadline import DeadlineRule

VOCAB, WIDTH = 23, 4


def test_the_first_step_past_the_deadline_ends_a_canvas(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    rule, canvas = DeadlineRule(canvas_seconds=2.0), CanvasInfo(WIDTH, VOCAB, 9, 9)
    state = rule.start(canvas)
    ended = []
    for step in range(1, 6):
        now += 0.75
        unsure = prediction(torch.zeros(WIDTH, VOCAB))
        stops, state = rule.should_stop(StepInfo(canvas, step, 1.0), unsure, state)
        ended.append(stops)
    assert ended == [False, False, True, True, True]


def test_a_sure_canvas_ends_before() -> None:
    rule, canvas = DeadlineRule(canvas_seconds=1e6), CanvasInfo(WIDTH, VOCAB, 9, 9)
    logits = torch.zeros(WIDTH, VOCAB)
    logits[:, 5] = 50.0
    stops, state = rule.should_stop(StepInfo(canvas, 1, 1.0), prediction(logits), rule.start(canvas))
    assert not stops, "equal canvases in a row are asked for all the same"
    assert rule.should_stop(StepInfo(canvas, 2, 1.0), prediction(logits), state)[0]


def test_for_every_step_neither_the_clock_nor_certainty_ends_a_canvas() -> None:
    rule, canvas = DeadlineRule(canvas_seconds=1e-9), CanvasInfo(WIDTH, VOCAB, 9, 9)
    logits = torch.zeros(WIDTH, VOCAB)
    logits[:, 5] = 50.0
    held_off = replace(rule, **rule.for_every_step())
    assert rule.should_stop(StepInfo(canvas, 1, 1.0), prediction(logits), rule.start(canvas))[0]
    state = held_off.start(canvas)
    for step in range(1, 5):
        stops, state = held_off.should_stop(StepInfo(canvas, step, 1.0), prediction(logits), state)
        assert not stops
