"""The leave-one-out corrector: equal to diffusers' sweep, in its turn with the predictor, and true to its purpose."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from diffusion.reference import diffusers, prediction, random_logits, step_info
from gesso.diffusion.samplers.leave_one_out import LeaveOneOutSampler, leave_one_out
from gesso.diffusion.step import CanvasInfo, StepInfo

VOCAB = 23
ORDERS = {
    "log_margin": "lowest_log_margin",
    "max_probability": "lowest_maxprob",
    "current_probability": "lowest_current_prob",
    "random": "random",
}


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**31), st.integers(1, 40), st.integers(2, 9), st.sampled_from(sorted(ORDERS)), st.integers(1, 6))
def test_a_sweep_equals_diffusers(seed: int, width: int, points: int, order: str, positions: int) -> None:
    theirs = diffusers().DiscreteDDIMScheduler(
        num_inference_steps=points,
        corrector_steps=1,
        corrector_k=positions,
        corrector_selection=ORDERS[order],
        corrector_selection_tau=0.7,
    )
    sampler = LeaveOneOutSampler(
        corrector_positions=positions,
        corrector_order=order,  # type: ignore[arg-type]
        corrector_temperature=0.7,
    )
    logits = random_logits(seed, width, VOCAB, 3.0)
    canvas = torch.randint(VOCAB, (width,), generator=torch.Generator().manual_seed(seed))
    steps = 2 * (points - 1) + 1
    point = seed % (points - 1)
    info, rng = step_info(2 * point + 2, steps, width, VOCAB), torch.Generator().manual_seed(3)
    ours, _, _ = sampler.step(info, canvas, prediction(logits), None, rng)
    outcome = theirs.step_correct(logits[None], point, canvas[None], generator=torch.Generator().manual_seed(3))
    assert ours.tolist() == outcome.prev_sample[0].tolist()


@given(st.integers(1, 60), st.integers(1, 5))
def test_predictor_and_sweeps_take_turns_and_the_last_pass_commits(steps: int, sweeps: int) -> None:
    sampler, info = LeaveOneOutSampler(corrector_steps=sweeps), CanvasInfo(8, VOCAB, steps, steps)
    places = [sampler.place(info, steps - n) for n in range(1, steps + 1)]
    assert {points for _, points, _ in places} == {places[0][1]}
    assert places[-1] == (places[0][1] - 1, places[0][1], False)
    predicted = [point for point, _, corrects in places if not corrects]
    assert predicted == list(range(places[0][1])), "every point in time is predicted once, in order"
    for point in range(places[0][1] - 1):
        count = sum(1 for at, _, corrects in places if corrects and at == point)
        assert count >= min(sweeps, steps - places[0][1]) or count == steps - places[0][1]


def test_what_a_position_holds_is_not_counted_twice() -> None:
    """A model that only repeats what it saw knows nothing by itself: without its own token all are equally likely."""
    alpha, tokens = 0.6, torch.tensor([3, 7])
    seen = torch.full((2, VOCAB), (1 - alpha) / VOCAB)
    seen[torch.arange(2), tokens] += alpha
    mixed = leave_one_out(seen.double().log(), tokens, alpha).exp()
    assert mixed.sum(dim=-1).tolist() == pytest.approx([1.0, 1.0])
    assert torch.allclose(mixed, torch.full_like(mixed, 1 / VOCAB))


def test_pinned_positions_are_never_drawn_anew() -> None:
    held = torch.zeros(6, dtype=torch.bool)
    held[:4] = True
    info = StepInfo(CanvasInfo(6, VOCAB, 9, 9, held_C=held), 2, 1.0)
    canvas, said = torch.zeros(6, dtype=torch.int64), prediction(random_logits(0, 6, VOCAB, 0.1))
    changed = torch.zeros(6, dtype=torch.bool)
    for seed in range(30):
        for order in ORDERS:
            sampler = LeaveOneOutSampler(corrector_order=order, corrector_positions=6)  # type: ignore[arg-type]
            after, _, _ = sampler.step(info, canvas, said, None, torch.Generator().manual_seed(seed))
            changed |= after != canvas
    assert changed.tolist() == [False] * 4 + [True] * 2
    all_held = StepInfo(CanvasInfo(6, VOCAB, 9, 9, held_C=torch.ones(6, dtype=torch.bool)), 2, 1.0)
    after, _, _ = LeaveOneOutSampler().step(all_held, canvas, said, None, torch.Generator().manual_seed(0))
    assert torch.equal(after, canvas)
