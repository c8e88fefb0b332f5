"""The leave-one-out corrector: equal to diffusers' sweep, in its turn with the predictor, and true to its purpose."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

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


def test_a_sweep_draws_at_the_temperature_of_the_request() -> None:
    width, alpha, canvas = 4, 0.9, torch.zeros(4, dtype=torch.int64)
    log_probs = random_logits(1, width, VOCAB, 1.0).log_softmax(dim=-1)
    usual = leave_one_out(log_probs, canvas, alpha)
    assert torch.equal(leave_one_out(log_probs, canvas, alpha, 1.0), usual)
    unseen = log_probs.double()
    unseen[:, 0] -= math.log1p(VOCAB * alpha / (1 - alpha))
    for temperature in (0.0, 0.5, 2.0):
        found = leave_one_out(log_probs, canvas, alpha, temperature).exp()
        clean = (unseen / temperature).softmax(-1) if temperature else F.one_hot(unseen.argmax(-1), VOCAB).double()
        assert torch.allclose(found, alpha * clean + (1 - alpha) / VOCAB)


def test_a_greedy_request_has_greedy_sweeps() -> None:
    width, steps = 6, 99
    said = prediction(random_logits(0, width, VOCAB, 1.0))
    canvas = CanvasInfo(width, VOCAB, steps, steps, sampling_temperature=0.0)
    info = StepInfo(canvas, steps - 1, 1.0)
    unlike = (said.argmax_C + 1) % VOCAB
    sampler, kept = LeaveOneOutSampler(corrector_positions=width), 0
    for seed in range(20):
        after, _, _ = sampler.step(info, unlike, said, None, torch.Generator().manual_seed(seed))
        kept += int((after == said.argmax_C).sum())
    assert kept > 0.9 * 20 * width, "noise alone draws others"
