"""How many soft tokens a picture takes, beside the reference's own function."""

import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gesso.config import ModelConfig
from gesso.errors import ImageError, OptionError
from gesso.generation import IMAGE_BUDGETS, RequestOptions
from gesso.options import options_of
from gesso.vision.size import (
    BUDGETS,
    DEFAULT_BUDGET,
    GEMMA4,
    VIDEO_BUDGET,
    PatchLayout,
    soft_tokens,
    target_size,
)
from gesso.vision.video import FPS, MAX_FRAMES

sides = st.one_of(st.integers(1, 200), st.integers(1, 60_000))


@pytest.mark.parametrize(
    ("size", "budget", "expected"),
    [
        ((640, 480), 280, (912, 672, 266)),
        ((1000, 700), 280, (960, 672, 280)),
        ((500, 500), 280, (768, 768, 256)),
        ((1, 1), 280, (768, 768, 256)),
        ((1920, 1080), 280, (1056, 576, 264)),
        ((10000, 10), 280, (13440, 48, 280)),
        ((10, 10000), 280, (48, 13440, 280)),
        ((33, 777), 280, (144, 3888, 243)),
        ((640, 480), 70, (432, 336, 63)),
        ((500, 500), 70, (384, 384, 64)),
        ((1920, 1080), 70, (528, 288, 66)),
        ((640, 480), 140, (624, 480, 130)),
        ((1920, 1080), 1120, (2112, 1200, 1100)),
    ],
)
def test_known_sizes(size: tuple[int, int], budget: int, expected: tuple[int, int, int]) -> None:
    found = target_size(*size, budget)
    assert (found.width, found.height, found.soft_tokens) == expected
    assert soft_tokens(*size, budget) == expected[2]


@given(sides, sides, st.sampled_from(BUDGETS))
def test_any_size_is_the_reference_s_and_within_the_budget(width: int, height: int, budget: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from transformers.models.gemma4.image_processing_pil_gemma4 import get_aspect_ratio_preserving_size

    found = target_size(width, height, budget)
    assert (found.height, found.width) == get_aspect_ratio_preserving_size(height, width, 16, 9 * budget, 3)
    assert 1 <= found.soft_tokens <= budget
    assert found.soft_tokens * 48 * 48 == found.width * found.height
    # What is resized already stays as it is, or the count would depend on who resizes.
    assert soft_tokens(found.width, found.height, budget) <= budget


@pytest.mark.parametrize("budget", [0, 71, 256, 281, 2240, -70, 70.0, True])
def test_other_budgets_are_refused(budget: int) -> None:
    with pytest.raises(OptionError, match="70, 140, 280, 560, 1120 soft tokens"):
        soft_tokens(100, 100, budget)


@pytest.mark.parametrize("size", [(0, 0), (0, 5), (5, 0), (-1, 5)])
def test_a_picture_without_pixels_is_refused(size: tuple[int, int]) -> None:
    with pytest.raises(ImageError, match="no pixels"):
        soft_tokens(*size)


def test_another_layout_counts_in_its_own_tokens() -> None:
    small = PatchLayout(4, 3)
    assert small.token_side == 12
    assert target_size(640, 480, 280, small).soft_tokens == target_size(640, 480, 280, GEMMA4).soft_tokens
    assert target_size(640, 480, 280, small).width == 912 // 4
    with pytest.raises(OptionError, match="must be positive"):
        PatchLayout(0, 3)


def test_the_table_of_options_has_these_budgets() -> None:
    rows = options_of(RequestOptions)
    assert IMAGE_BUDGETS == BUDGETS
    assert (rows["image_budget"].default, rows["video_budget"].default) == (None, VIDEO_BUDGET)
    assert ModelConfig.__dataclass_fields__["image_budget"].default == DEFAULT_BUDGET
    assert (rows["video_fps"].default, rows["video_frames"].default) == (FPS, MAX_FRAMES)
