"""Discrete DDIM: equal to diffusers' scheduler step by step, and true to the corruption's posterior."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from diffusion.reference import diffusers, prediction, random_logits, step_info
from gesso.diffusion.samplers.discrete_ddim import DiscreteDDIMSampler, route_probabilities
from gesso.diffusion.step import CanvasInfo, StepInfo

VOCAB = 23


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**31), st.integers(1, 24), st.integers(1, 12), st.floats(0.1, 20))
def test_every_canvas_equals_diffusers(seed: int, width: int, steps: int, sharpness: float) -> None:
    theirs = diffusers().DiscreteDDIMScheduler(num_inference_steps=steps)
    sampler, rng, their_rng = DiscreteDDIMSampler(), torch.Generator(), torch.Generator()
    rng.manual_seed(seed)
    their_rng.manual_seed(seed)
    canvas, state = sampler.start(CanvasInfo(width, VOCAB, steps, steps), rng)
    their_canvas = torch.randint(VOCAB, (1, width), generator=their_rng)
    for step in range(1, steps + 1):
        logits = random_logits(seed + step, width, VOCAB, sharpness)
        canvas, _, state = sampler.step(step_info(step, steps, width, VOCAB), canvas, prediction(logits), state, rng)
        outcome = theirs.step(logits[None], step - 1, their_canvas, temperature=0.0, generator=their_rng)
        their_canvas = outcome.prev_sample
        assert canvas.tolist() == their_canvas[0].tolist()


@given(st.floats(0, 1), st.floats(0, 1), st.integers(2, 10_000))
def test_routes_are_the_posterior_of_the_corruption(one: float, other: float, vocab: int) -> None:
    """By Bayes' rule over all next tokens: q(x_s | x_t, x_0) is q(x_t | x_s) q(x_s | x_0) over q(x_t | x_0)."""
    alpha, after = sorted((min(one, 0.999), max(other, 1e-3)))
    for same in (True, False):
        clean, stay, noise = route_probabilities(torch.tensor([same]), alpha, after, vocab_size=vocab)[0].tolist()
        survival = alpha / after
        seen = alpha * same + (1 - alpha) / vocab
        keep_token = (survival + (1 - survival) / vocab) * ((1 - after) / vocab + after * same) / seen
        ours = stay + noise / vocab + (clean if same else 0)
        assert ours == pytest.approx(keep_token, rel=1e-3, abs=1e-5)
        assert clean + stay + noise == pytest.approx(1, abs=1e-5)


@given(st.integers(0, 2**31), st.sampled_from(["linear", "cosine", "square_cosine", "polynomial", "geometric"]))
def test_the_last_step_commits_the_sample(seed: int, schedule: str) -> None:
    sampler = DiscreteDDIMSampler(noise_schedule=schedule, noise_degree=50.0)  # type: ignore[arg-type]
    rng = torch.Generator().manual_seed(seed)
    said, info = prediction(random_logits(seed, 9, VOCAB, 3.0)), step_info(5, 5, 9, VOCAB)
    canvas, accepted, state = sampler.step(info, torch.zeros(9, dtype=torch.int64), said, None, rng)
    assert torch.equal(canvas, said.sample_C)
    assert bool(accepted.all())
    assert torch.equal(sampler.output(info, canvas, said, state), said.sample_C)
    earlier = step_info(4, 5, 9, VOCAB)
    assert torch.equal(sampler.output(earlier, canvas + 1, said, state), said.argmax_C)


def test_a_canvas_that_starts_late_goes_on_from_its_noise_level() -> None:
    """Two steps left of a thousand: nearly all of what agrees with the prediction stays."""
    info = StepInfo(CanvasInfo(500, VOCAB, 2, 1000), 1, 1.0)
    said = prediction(random_logits(1, 500, VOCAB, 3.0))
    canvas, _, _ = DiscreteDDIMSampler().step(info, said.argmax_C, said, None, torch.Generator().manual_seed(0))
    assert int((canvas == said.argmax_C).sum()) > 495


@pytest.mark.parametrize(("steps", "degree"), [(3, 1e-18), (10**18, 2.0)])
def test_a_step_that_leads_to_nearly_nothing_clean_is_taken(steps: int, degree: float) -> None:
    """Alpha is 0 there, as far as floats can tell."""
    sampler = DiscreteDDIMSampler(noise_schedule="polynomial", noise_degree=degree)
    said, rng = prediction(random_logits(1, 9, VOCAB, 3.0)), torch.Generator().manual_seed(1)
    canvas, _, _ = sampler.step(step_info(1, steps, 9, VOCAB), torch.zeros(9, dtype=torch.int64), said, None, rng)
    assert bool(((canvas >= 0) & (canvas < VOCAB)).all())
