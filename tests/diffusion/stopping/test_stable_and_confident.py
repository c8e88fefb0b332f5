"""The stopping rule: k + 1 equal argmax canvases, and sure of them."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from diffusion.reference import prediction, reference
from gesso.diffusion.prediction import Prediction
from gesso.diffusion.step import CanvasInfo, StepInfo
from gesso.diffusion.stopping.stable_and_confident import StableAndConfident

SURE, UNSURE = 0.0, 1.0


def say(tokens: list[int], entropy: float = SURE) -> Prediction:
    best = torch.tensor(tokens)
    # What is sampled plays no part in stopping.
    return Prediction(torch.randint(9, best.shape), best, torch.full(best.shape, entropy))


def canvas(end_tokens: tuple[int, ...] = ()) -> CanvasInfo:
    return CanvasInfo(width=3, vocab_size=9, steps=99, total_steps=99, end_tokens=end_tokens)


def first_stop(rule: StableAndConfident, steps: list[Prediction], end_tokens: tuple[int, ...] = ()) -> int | None:
    """Number, from 1, of the step at which it stops."""
    state = rule.start(canvas(end_tokens))
    for number, step in enumerate(steps, 1):
        stops, state = rule.should_stop(StepInfo(canvas(end_tokens), number, 1.0), step, state)
        if stops:
            return number
    return None


@pytest.mark.parametrize("threshold", range(4))
def test_it_stops_at_the_step_that_makes_threshold_plus_one_equal_canvases(threshold: int) -> None:
    rule = StableAndConfident(threshold, 0.005)
    assert first_stop(rule, [say([1, 2, 3])] * 6) == threshold + 1
    moving = [say([n, 2, 3]) for n in range(4)]
    assert first_stop(rule, [*moving, *[say([9, 2, 3])] * 5]) == (5 + threshold if threshold else 1)


@pytest.mark.parametrize("threshold", range(1, 4))
def test_a_change_at_any_position_starts_the_count_again(threshold: int) -> None:
    same, other = say([1, 2, 3]), say([1, 2, 4])
    steps = [*[same] * threshold, other, *[same] * 5]
    assert first_stop(StableAndConfident(threshold, 0.005), steps) == 2 * threshold + 2


@pytest.mark.parametrize("threshold", range(4))
def test_it_never_stops_while_unsure(threshold: int) -> None:
    rule = StableAndConfident(threshold, 0.5)
    assert first_stop(rule, [say([1, 2], UNSURE)] * 9) is None
    assert first_stop(rule, [say([1, 2], 0.5)] * 9) is None, "the mean must be below the threshold"
    assert first_stop(StableAndConfident(threshold, 0.0), [say([1, 2], 0.0)] * 9) is None
    # Unsure steps count as stable ones: being sure matters at the last step alone.
    assert first_stop(rule, [*[say([1, 2], UNSURE)] * 5, say([1, 2])]) == 6


def test_the_mean_over_the_canvas_decides() -> None:
    tokens = torch.tensor([1, 2, 3, 4])
    uneven = Prediction(tokens, tokens, torch.tensor([0.0, 0.0, 0.0, 0.9]))
    assert first_stop(StableAndConfident(0, 0.23), [uneven]) == 1
    assert first_stop(StableAndConfident(0, 0.22), [uneven]) is None


def test_every_canvas_starts_with_an_empty_history() -> None:
    rule = StableAndConfident(2, 0.005)
    assert first_stop(rule, [say([1, 2])] * 3) == 3
    assert first_stop(rule, [say([1, 2])] * 2) is None


@given(
    threshold=st.integers(0, 3),
    steps=st.lists(st.tuples(st.integers(0, 2), st.sampled_from([0.0, 2.0, 6.0, 14.0])), min_size=1, max_size=14),
    confidence=st.sampled_from([1e-4, 0.05, 0.5, 5.0]),
)
def test_it_stops_where_the_reference_does(threshold: int, steps: list[tuple[int, float]], confidence: float) -> None:
    """Random walks over three canvases, so that many are repeated, with all degrees of being sure."""
    theirs = reference().StableAndConfidentStoppingCriteria(threshold, confidence)
    ours = StableAndConfident(threshold, confidence)
    state = ours.start(canvas())
    canvases = torch.tensor([[0, 1, 2, 3], [0, 1, 2, 4], [5, 1, 2, 3]])
    for which, sharpness in steps:
        logits = sharpness * torch.nn.functional.one_hot(canvases[which], 6).float()
        said = prediction(logits)
        said = Prediction(said.sample_C, canvases[which], said.entropy_C)
        stops, state = ours.should_stop(StepInfo(canvas(), 1, 1.0), said, state)
        assert stops == bool(theirs(canvases[which][None], logits[None])[0])


def test_only_what_stands_before_the_end_counts() -> None:
    def unsure(tokens: list[int], entropy: tuple[float, ...] = (0.0, 0.0, 0.0, 3.0)) -> Prediction:
        best = torch.tensor(tokens)
        return Prediction(best, best, torch.tensor(entropy))

    one, two, rule = unsure([5, 6, 1, 7]), unsure([5, 6, 1, 8]), StableAndConfident(1, 0.01)
    assert first_stop(rule, [one, two], end_tokens=(1,)) == 2
    assert first_stop(rule, [one, two]) is None
    assert first_stop(rule, [one, unsure([5, 1, 1, 8])], end_tokens=(1,)) is None
    doubtful = unsure([5, 6, 1, 7], (0.0, 0.5, 0.0, 0.0))  # in the mean, behind the end included
    assert first_stop(rule, [doubtful, doubtful], end_tokens=(1,)) is None
    assert first_stop(rule, [one, one], end_tokens=(9,)) is None


def test_what_starts_from_a_text_need_not_be_seen_twice() -> None:
    assert StableAndConfident(2, 0.005).for_given_text(0.01) == {"stability_threshold": 0, "confidence_threshold": 0.01}
    assert StableAndConfident(2, 0.5).for_given_text(0.01)["confidence_threshold"] == 0.5


@pytest.mark.parametrize("threshold", range(3))
def test_for_every_step_it_never_stops(threshold: int) -> None:
    rule = StableAndConfident(threshold, 0.5)
    held_off = replace(rule, **rule.for_every_step())
    assert first_stop(rule, [say([1, 2])] * 9) is not None
    assert first_stop(held_off, [say([1, 2])] * 9) is None
