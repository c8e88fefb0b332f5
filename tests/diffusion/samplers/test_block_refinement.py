"""Block refinement: equal to diffusers' scheduler in its uniform mode, and never short of its quota."""

from typing import Any

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from diffusion.reference import diffusers, prediction, random_logits, step_info
from gesso.diffusion.samplers.block_refinement import BlockRefinementSampler
from gesso.diffusion.step import CanvasInfo

VOCAB = 23


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 2**31),
    st.integers(1, 24),
    st.integers(1, 12),
    st.floats(0.1, 3),  # beyond, probabilities are 1 in fp32, and who of equals comes first is not told
    st.sampled_from([0.0, 0.3, 0.95, 1.0]),
    st.sampled_from([None, 0.2, 0.9]),
)
def test_every_canvas_equals_diffusers(
    seed: int, width: int, steps: int, sharpness: float, threshold: float, editing: float | None
) -> None:
    theirs = diffusers().BlockRefinementScheduler(
        block_length=width, num_inference_steps=steps, threshold=threshold, editing_threshold=editing
    )
    theirs.set_timesteps(steps, block_length=width)
    sampler: Any = BlockRefinementSampler(threshold, editing)
    rng, their_rng = (torch.Generator().manual_seed(seed) for _ in range(2))
    canvas, state = sampler.start(CanvasInfo(width, VOCAB, steps, steps), rng)
    their_canvas = torch.randint(VOCAB, (1, width), generator=their_rng)
    for step in range(1, steps + 1):
        logits = random_logits(seed + step, width, VOCAB, sharpness)
        said = prediction(logits)
        canvas, accepted, state = sampler.step(step_info(step, steps, width, VOCAB), canvas, said, state, rng)
        outcome = theirs.step(logits[None], step - 1, their_canvas, temperature=0.0, generator=their_rng)
        their_canvas = outcome.prev_sample
        assert canvas.tolist() == their_canvas[0].tolist()
        assert int(accepted.sum()) * steps >= step * width, "the quota of every step"
        assert torch.equal(sampler.output(None, canvas, said, state)[accepted], canvas[accepted])
    assert bool(state.all()), "at the last step all is committed"
