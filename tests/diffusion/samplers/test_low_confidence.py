"""Low confidence: equal to diffusers' scheduler in its mode of masks, and never short of its share."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from diffusion.reference import diffusers, prediction, random_logits
from gesso.diffusion.canvas_state import CanvasState, DenoisingRules
from gesso.diffusion.samplers.low_confidence import LowConfidenceSampler
from gesso.diffusion.step import CanvasShape
from gesso.diffusion.stopping.last_step import LastStep

VOCAB, MASK = 23, 22


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 2**31),
    st.integers(1, 24),
    st.integers(1, 12),
    st.floats(0.1, 3),
    st.sampled_from([0.0, 0.3, 0.6, 0.95, 1.0]),
)
def test_every_canvas_of_masks_equals_diffusers(
    seed: int, width: int, steps: int, sharpness: float, threshold: float
) -> None:
    theirs = diffusers().BlockRefinementScheduler(
        block_length=width, num_inference_steps=steps, threshold=threshold, editing_threshold=None
    )
    theirs.set_timesteps(steps, block_length=width)
    rules = DenoisingRules(steps, sampler=LowConfidenceSampler("dynamic", threshold), stopping=LastStep())
    ours = CanvasState(rules, CanvasShape(width, VOCAB, MASK), torch.Generator().manual_seed(0))
    their_canvas = torch.full((1, width), MASK)
    while not ours.finished:
        logits = random_logits(seed + ours.steps, width, VOCAB, sharpness)
        logits[:, MASK] = -1e4
        step = ours.steps
        ours.advance(prediction(logits), torch.zeros(width, 0))
        outcome: Any = theirs.step(logits[None], step, their_canvas, mask_token_id=MASK, temperature=0.0)
        their_canvas = outcome.prev_sample
        assert ours.canvas_C.equal(their_canvas[0])
    assert not (ours.canvas_C == MASK).any()
    assert ours.argmax_C.equal(ours.canvas_C)


def test_a_narrower_canvas_keeps_the_share_of_a_whole_one() -> None:
    rules = DenoisingRules(4, sampler=LowConfidenceSampler("static"), stopping=LastStep())
    state = CanvasState(rules, CanvasShape(3, VOCAB, MASK, 8), torch.Generator())
    left = []
    while not state.finished:
        state.advance(prediction(random_logits(state.steps, 3, MASK, 1.0)), torch.zeros(3, 0))
        left.append(int((state.canvas_C == MASK).sum()))
    assert left == [1, 0]


@pytest.mark.parametrize("strategy", ["dynamic", "static", "sequential"])
def test_the_last_step_commits_what_is_open_where_its_share_is_less(strategy: Any) -> None:
    sampler = LowConfidenceSampler(strategy)
    rules = DenoisingRules(1, sampler=sampler, stopping=LastStep(), total_steps=9)
    state = CanvasState(rules, CanvasShape(2, VOCAB), torch.Generator().manual_seed(0))
    said = prediction(random_logits(0, 2, VOCAB, 0.1))
    state.advance(said, torch.zeros(2, 0))
    assert state.accepted_C.all()
    assert state.canvas_C.equal(said.sample_C)
