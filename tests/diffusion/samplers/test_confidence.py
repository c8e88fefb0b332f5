"""Acceptance by probability and by margin: what is accepted, and what is not."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from diffusion.reference import prediction, random_logits, step_info
from gesso.diffusion.canvas_state import CanvasState, DenoisingRules
from gesso.diffusion.samplers import Sampler
from gesso.diffusion.samplers.confidence import ConfidenceSampler
from gesso.diffusion.samplers.margin import MarginSampler, margins
from gesso.diffusion.step import CanvasInfo, CanvasShape, StepInfo
from gesso.diffusion.stopping.last_step import LastStep

VOCAB = 23
SEEDS, WIDTHS, SHARPNESS, BOUNDS = st.integers(0, 2**31), st.integers(1, 150), st.floats(0.1, 20), st.floats(0, 1)


@given(SEEDS, WIDTHS, SHARPNESS, BOUNDS)
def test_likely_enough_is_accepted_and_one_at_least(seed: int, width: int, sharpness: float, bound: float) -> None:
    said = prediction(random_logits(seed, width, VOCAB, sharpness))
    rng, canvas = torch.Generator().manual_seed(seed), torch.zeros(width, dtype=torch.int64)
    after, accepted, _ = ConfidenceSampler(bound).step(step_info(1, 4, width, VOCAB), canvas, said, None, rng)
    assert said.confidence_C is not None
    for place, confidence in enumerate(said.confidence_C):
        assert bool(accepted[place]) == (confidence >= bound or place == int(said.confidence_C.argmax()))
    assert torch.equal(after[accepted], said.sample_C[accepted])


@given(SEEDS, WIDTHS, SHARPNESS, BOUNDS)
def test_far_enough_ahead_is_accepted_and_one_at_least(seed: int, width: int, sharpness: float, bound: float) -> None:
    logits = random_logits(seed, width, VOCAB, sharpness)
    said = prediction(logits)
    first, second = logits.softmax(dim=-1).sort(dim=-1, descending=True).values[:, :2].T
    assert torch.allclose(margins(said), first - second, atol=1e-6)
    rng, canvas = torch.Generator().manual_seed(seed), torch.zeros(width, dtype=torch.int64)
    after, accepted, _ = MarginSampler(bound).step(step_info(1, 4, width, VOCAB), canvas, said, None, rng)
    found = margins(said)
    expected = found >= bound
    expected[found.argmax()] = True
    assert torch.equal(accepted, expected)
    assert torch.equal(after[accepted], said.argmax_C[accepted])


@pytest.mark.parametrize("sampler", [ConfidenceSampler(0.9), MarginSampler(0.9)], ids=repr)
def test_the_position_that_is_accepted_in_any_case_is_a_free_one(sampler: Sampler) -> None:
    said = prediction(torch.tensor([[1.0, *[0.0] * (VOCAB - 1)], [0.0] * VOCAB, [2.0, *[0.0] * (VOCAB - 1)]]))
    assert said.confidence_C is not None
    held = torch.tensor([False, True, False])
    said = replace(said, confidence_C=said.confidence_C.masked_fill(held, 1.0))
    info = StepInfo(CanvasInfo(3, VOCAB, 4, 4, held_C=held), 1, 1.0)
    _, accepted, _ = sampler.step(info, torch.zeros(3, dtype=torch.int64), said, None, torch.Generator())
    assert accepted.tolist() == [False, True, True]
    whole = StepInfo(CanvasInfo(3, VOCAB, 4, 4, held_C=torch.ones(3, dtype=torch.bool)), 1, 1.0)
    _, accepted, _ = sampler.step(whole, torch.zeros(3, dtype=torch.int64), said, None, torch.Generator())
    assert accepted.tolist() == [True] * 3


@pytest.mark.parametrize("sampler", [ConfidenceSampler(0.9), MarginSampler(0.9)], ids=repr)
def test_every_step_decodes_a_mask(sampler: Sampler) -> None:
    mask, width = VOCAB - 1, 5
    rules = DenoisingRules(width, sampler=sampler, stopping=LastStep())
    state = CanvasState(rules, CanvasShape(width, VOCAB, mask), torch.Generator().manual_seed(0))
    left = []
    while not state.finished:
        logits = random_logits(state.steps, width, VOCAB, 0.1)
        logits[:, mask] = -1e4
        state.advance(prediction(logits), torch.zeros(width, 0))
        left.append(int((state.canvas_C == mask).sum()))
    assert left == [4, 3, 2, 1, 0]
