"""Samplers by a scheduled number of positions: MaskGIT's and the planner's."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from diffusion.reference import prediction, random_logits, step_info
from gesso.diffusion.samplers.entropy_bound import EntropyBoundSampler
from gesso.diffusion.samplers.maskgit import MaskGITSampler
from gesso.diffusion.samplers.planner import PlannerSampler

VOCAB = 23


@given(
    st.integers(0, 2**31),
    st.integers(1, 40),
    st.integers(1, 12),
    st.sampled_from(["linear", "cosine", "square_cosine", "polynomial", "geometric"]),
    st.sampled_from(["confidence", "entropy", "random"]),
    st.sampled_from([0.0, 1.5]),
)
def test_as_many_are_accepted_as_the_schedule_asks(
    seed: int, width: int, steps: int, schedule: str, order: str, temperature: float
) -> None:
    sampler = MaskGITSampler(
        noise_schedule=schedule,  # type: ignore[arg-type]
        order=order,  # type: ignore[arg-type]
        order_temperature=temperature,
    )
    planner = PlannerSampler(noise_schedule=schedule)  # type: ignore[arg-type]
    rng, canvas, last = torch.Generator().manual_seed(seed), torch.zeros(width, dtype=torch.int64), 0
    for step in range(1, steps + 1):
        said, info = prediction(random_logits(seed + step, width, VOCAB, 3.0)), step_info(step, steps, width, VOCAB)
        _, accepted, _ = sampler.step(info, canvas, said, None, rng)
        count = int(accepted.sum())
        assert count >= max(last, 1)
        assert abs(count - width * sampler.alpha(info.time_after)) <= 1
        last = count
        if order != "random" and not temperature and count < width:
            assert said.confidence_C is not None
            sure = -said.entropy_C if order == "entropy" else said.confidence_C
            assert sure[accepted].min() >= sure[~accepted].max()
        after, clean, _ = planner.step(info, canvas, said, None, rng)
        assert int(clean.sum()) == count
        assert said.entropy_C[clean].max() <= said.entropy_C[~clean].min() if count < width else True
        assert torch.equal(after[clean], said.sample_C[clean])
    assert last == width, "the last step accepts all"


def test_hot_orders_take_others_too() -> None:
    said = prediction(random_logits(1, 40, VOCAB, 1.0))
    taken = set()
    for seed in range(20):
        rng = torch.Generator().manual_seed(seed)
        step = MaskGITSampler(order_temperature=50.0).step
        taken.add(tuple(step(step_info(1, 8, 40, VOCAB), said.sample_C, said, None, rng)[1].tolist()))
    assert len(taken) > 10


@pytest.mark.parametrize(("rest", "kept"), [("stay", 1.0), ("noise", 1 / VOCAB), ("posterior", 0.5 + 0.5 / VOCAB)])
def test_positions_not_chosen_go_their_way(rest: str, kept: float) -> None:
    """From step 2 to 3 of 4, of alpha 1/4 to 1/2, half of them stay."""
    width, rng = 20_000, torch.Generator().manual_seed(0)
    canvas, said = torch.zeros(width, dtype=torch.int64), prediction(torch.zeros(width, VOCAB))
    sampler = PlannerSampler(rest=rest)  # type: ignore[arg-type]
    after, clean, _ = sampler.step(step_info(2, 4, width, VOCAB), canvas, said, None, rng)
    share = float((after[~clean] == 0).float().mean())
    assert share == pytest.approx(kept, abs=5 * math.sqrt(0.25 / (width / 2)))


@given(st.integers(0, 2**31), st.floats(0, 5))
def test_the_planner_of_joint_entropy_is_the_published_rule(seed: int, bound: float) -> None:
    said = prediction(random_logits(seed, 12, VOCAB, 4.0))
    sampler = PlannerSampler(planner="entropy_bound", entropy_bound=bound)
    rng = torch.Generator().manual_seed(seed)
    _, clean, _ = sampler.step(step_info(1, 4, 12, VOCAB), said.sample_C, said, None, rng)
    assert torch.equal(clean, EntropyBoundSampler(bound).accept(said))
