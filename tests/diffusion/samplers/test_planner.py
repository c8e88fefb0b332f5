"""The planner at the ends of its noise schedule."""

import pytest
import torch

from diffusion.reference import prediction, random_logits, step_info
from gesso.diffusion.samplers.planner import PlannerSampler

VOCAB = 23


@pytest.mark.parametrize(("steps", "degree"), [(3, 1e-18), (10**18, 2.0)])
def test_a_step_that_leads_to_nearly_nothing_clean_is_taken(steps: int, degree: float) -> None:
    sampler = PlannerSampler(noise_schedule="polynomial", noise_degree=degree)
    said, rng = prediction(random_logits(1, 9, VOCAB, 3.0)), torch.Generator().manual_seed(1)
    canvas, clean, _ = sampler.step(step_info(1, steps, 9, VOCAB), torch.zeros(9, dtype=torch.int64), said, None, rng)
    assert int(clean.sum()) == 1
    assert torch.equal(canvas[clean], said.sample_C[clean])
