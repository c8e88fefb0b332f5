"""ReMDM: the share of decoded positions follows the noise schedule, whatever is taken back on the way."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from diffusion.reference import prediction, random_logits, step_info
from gesso.diffusion.samplers.remdm import ReMDMSampler
from gesso.diffusion.step import CanvasInfo

VOCAB = 23


@pytest.mark.parametrize("schedule", ["none", "max_capped", "rescaled"])
@pytest.mark.parametrize("noise", ["linear", "cosine"])
def test_the_share_decoded_is_alpha(schedule: str, noise: str) -> None:
    width, steps, rng = 20_000, 6, torch.Generator().manual_seed(0)
    sampler = ReMDMSampler(remasking_schedule=schedule, remasking=0.3, noise_schedule=noise)  # type: ignore[arg-type]
    canvas, state = sampler.start(CanvasInfo(width, VOCAB, steps, steps), rng)
    said, back = prediction(torch.zeros(width, VOCAB)), 0
    for step in range(1, steps + 1):
        info, before = step_info(step, steps, width, VOCAB), state
        canvas, accepted, state = sampler.step(info, canvas, said, state, rng)
        assert torch.equal(accepted, state)
        share = sampler.alpha(info.time_after)
        assert float(state.float().mean()) == pytest.approx(share, abs=5 * math.sqrt(0.25 / width))
        back += int((before & ~state).sum())
        assert torch.equal(sampler.output(info, canvas + 1, said, state)[~state], said.argmax_C[~state])
    assert bool(state.all())
    assert (back > 0) == (schedule != "none")


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_sigma_keeps_both_probabilities_in_range(one: float, other: float, remasking: float) -> None:
    alpha, after = sorted((min(one, 0.999), other))
    for schedule in ("none", "max_capped", "rescaled"):
        sigma = ReMDMSampler(remasking_schedule=schedule, remasking=remasking).sigma(alpha, after)  # type: ignore[arg-type]
        assert 0 <= sigma <= 1
        assert -1e-9 <= (after - (1 - sigma) * alpha) / (1 - alpha) <= 1 + 1e-9
        assert schedule == "none" or sigma <= remasking + 1e-12


def test_what_stays_of_a_given_canvas_counts_as_decoded() -> None:
    """An edit that starts half way: what was not noised is there already."""
    start = torch.zeros(1000, dtype=torch.int64)
    info = CanvasInfo(1000, VOCAB, 4, 8, start_C=start, strength=0.5)
    canvas, state = ReMDMSampler().start(info, torch.Generator().manual_seed(0))
    assert torch.equal(state, canvas == 0)
    assert 400 < int(state.sum()) < 600
    whole = CanvasInfo(1000, VOCAB, 8, 8, start_C=start)
    assert not bool(ReMDMSampler().start(whole, torch.Generator())[1].any())


@given(st.integers(0, 2**31))
def test_a_decoded_token_stays_until_it_is_taken_back(seed: int) -> None:
    rng, sampler = torch.Generator().manual_seed(seed), ReMDMSampler(remasking=1.0)
    canvas, state = sampler.start(CanvasInfo(30, VOCAB, 6, 6), rng)
    for step in range(1, 7):
        said, before, old = prediction(random_logits(seed + step, 30, VOCAB, 3.0)), state, canvas
        canvas, _, state = sampler.step(step_info(step, 6, 30, VOCAB), canvas, said, state, rng)
        assert torch.equal(canvas[before & state], old[before & state])
        assert torch.equal(canvas[~before & state], said.sample_C[~before & state])
