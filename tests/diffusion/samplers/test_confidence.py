"""Acceptance by probability and by margin: what is accepted, and what is not."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from diffusion.reference import prediction, random_logits, step_info
from gesso.diffusion.samplers.confidence import ConfidenceSampler
from gesso.diffusion.samplers.margin import MarginSampler, margins
from gesso.diffusion.step import CanvasInfo, StepInfo

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


def test_a_pinned_position_is_no_answer_to_the_margin() -> None:
    said = prediction(torch.zeros(3, VOCAB))
    info = StepInfo(CanvasInfo(3, VOCAB, 4, 4, held_C=torch.tensor([False, True, False])), 1, 1.0)
    _, accepted, _ = MarginSampler(0.5).step(info, torch.zeros(3, dtype=torch.int64), said, None, torch.Generator())
    assert accepted.tolist() == [False, True, False]
