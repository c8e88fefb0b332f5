"""Early commit by the gap of the two highest logits."""

import math
from dataclasses import replace

import pytest
import torch

from diffusion.reference import prediction, random_logits
from gesso.diffusion.step import CanvasInfo, StepInfo
from gesso.diffusion.stopping.prophet import ProphetRule
from gesso.errors import OptionError

VOCAB, WIDTH, STEPS = 23, 8, 9


def stops(logits: torch.Tensor, step: int, held: list[bool] | None = None, temperature: float = 1.0) -> bool:
    held_C = None if held is None else torch.tensor(held)
    info = StepInfo(CanvasInfo(WIDTH, VOCAB, STEPS, STEPS, held_C=held_C), step, temperature)
    rule = ProphetRule(gap_early=6.0, gap_late=2.0)
    return rule.should_stop(info, prediction(logits / temperature), rule.start(info.canvas))[0]


def gapped(gap: float) -> torch.Tensor:
    logits = torch.zeros(WIDTH, VOCAB)
    logits[:, 3] = gap
    return logits


@pytest.mark.parametrize(("gap", "first"), [(6.5, 1), (4.5, 4), (2.5, 7), (1.5, None)])
def test_the_gap_that_is_enough_falls_in_thirds(gap: float, first: int | None) -> None:
    for temperature in (1.0, 0.5):
        ended = [step for step in range(1, STEPS + 1) if stops(gapped(gap), step, temperature=temperature)]
        assert ended == ([] if first is None else list(range(first, STEPS + 1)))


def test_the_gap_is_the_mean_over_free_positions() -> None:
    logits = random_logits(3, WIDTH, VOCAB, 4.0)
    first, second = logits.topk(2).values.unbind(dim=-1)
    assert stops(logits, STEPS) == ((first - second).mean().item() >= 2.0)
    half = torch.cat((gapped(7.0)[:4], gapped(0.0)[4:]))
    assert not stops(half, 1)
    assert stops(half, 1, held=[False] * 4 + [True] * 4)
    assert not stops(half, 9, held=[True] * 4 + [False] * 4)
    assert stops(half, 1, held=[True] * WIDTH), "nothing is left to settle"


def test_an_impossible_pair_is_refused() -> None:
    with pytest.raises(OptionError, match="gap_late must be at most gap_early") as refusal:
        ProphetRule(gap_early=1.0, gap_late=2.0)
    assert refusal.value.option == "gap_late"


def test_for_every_step_no_gap_is_enough() -> None:
    rule = ProphetRule()
    held_off = replace(rule, **rule.for_every_step())
    info = StepInfo(CanvasInfo(WIDTH, VOCAB, STEPS, STEPS), STEPS, 1.0)
    assert rule.should_stop(info, prediction(gapped(1e6)), None)[0]
    assert not held_off.should_stop(info, prediction(gapped(1e6)), None)[0]


def test_a_position_with_one_possible_token_does_not_count() -> None:
    """A constraint leaves one there: no gap is as wide, and the mean over all would be."""
    half = gapped(1.0)
    half[:4] = -math.inf
    half[:4, 3] = 0.0
    assert not stops(half, 1)
    half[4:] = gapped(6.5)[4:]
    assert stops(half, 1)
    half[4:] = half[:4]
    assert stops(half, 1), "nothing is left to settle"
