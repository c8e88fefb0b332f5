"""A canvas ends when its answer has settled, and not before."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gesso.diffusion.prediction import Prediction
from gesso.diffusion.step import CanvasInfo, StepInfo
from gesso.diffusion.stopping.answer_region import AnswerRegionRule
from gesso.diffusion.stopping.stable_and_confident import StableAndConfident

VOCAB = 30


def stops_at(rule: StableAndConfident, canvases: list[list[int]], entropy: list[float], **canvas: Any) -> int | None:
    """The step that ends the canvas; None where none does."""
    info = CanvasInfo(len(canvases[0]), VOCAB, len(canvases), len(canvases), **canvas)
    state = rule.start(info)
    for step, tokens in enumerate(canvases, 1):
        tokens_C = torch.tensor(tokens)
        done, state = rule.should_stop(
            StepInfo(info, step, 1.0), Prediction(tokens_C, tokens_C, torch.tensor(entropy, dtype=torch.float32)), state
        )
        if done:
            return step
    return None


CHANGING = [[place, 9, 7, 5, 6] for place in range(4)]
"""What stands before the marker 9 never settles."""


@pytest.mark.parametrize(
    ("options", "entropy", "step"),
    [
        ({"region_marker": (9,)}, [2.0, 2.0, 0, 0, 0], 2),
        ({"region_marker": (9, 7)}, [2.0, 2.0, 2.0, 0, 0], 2),
        ({"region_marker": (9,), "region_length": 2}, [2.0, 2.0, 0, 0, 2.0], 2),
        ({"region_marker": (9,), "region_start": 1}, [2.0, 2.0, 2.0, 0, 0], 2),
        ({"region_start": 2}, [2.0, 2.0, 0, 0, 0], 2),
        ({"region_marker": (9,)}, [0, 0, 0, 0, 0.02], None),
        ({"region_marker": (9,), "stability_threshold": 3}, [0] * 5, 4),
        ({"region_marker": (8,)}, [0] * 5, None),
        ({"region_marker": (5, 6)}, [0] * 5, None),
        ({}, [0] * 5, None),
    ],
)
def test_only_the_region_has_to_settle(options: dict[str, Any], entropy: list[float], step: int | None) -> None:
    assert stops_at(AnswerRegionRule(**options), CHANGING, entropy) == step


def test_the_last_marker_counts_and_the_answers_end_ends_the_region() -> None:
    canvases = [[9, 3, 9, 7, 1, step] for step in range(3)]
    rule = AnswerRegionRule(region_marker=(9,))
    assert stops_at(rule, canvases, [2.0, 2.0, 2.0, 0, 0, 2.0], end_tokens=(1,)) == 2
    assert stops_at(rule, canvases, [0, 0, 0, 0, 0, 0]) is None


@given(
    st.lists(st.lists(st.integers(0, 3), min_size=4, max_size=4), min_size=1, max_size=6),
    st.lists(st.sampled_from([0.0, 0.01]), min_size=4, max_size=4),
)
def test_a_region_that_is_the_whole_canvas_is_the_published_rule(
    canvases: list[list[int]], entropy: list[float]
) -> None:
    found = stops_at(AnswerRegionRule(), canvases, entropy)
    assert found == stops_at(StableAndConfident(), canvases, entropy)
