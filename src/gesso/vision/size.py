"""Computes the size an image is resized to, and so how many soft tokens it takes: from its width and height alone.

Counting, admission and pre-processing call the same function, so that they cannot disagree. The rule is that of
Gemma 4's image processor: the largest sides of about the picture's own shape that are multiples of a soft token's side
and hold at most `budget` soft tokens. Small pictures are enlarged.
"""

import math
from dataclasses import dataclass

from gesso.errors import ImageError, OptionError

BUDGETS = (70, 140, 280, 560, 1120)
"""Soft tokens a picture may take at most."""
DEFAULT_BUDGET = 280
VIDEO_BUDGET = 70
"""Soft tokens of each frame of a video."""


@dataclass(frozen=True, slots=True)
class PatchLayout:
    """Says how a tower cuts an image: patches of `patch_size` pixels, and soft tokens of `pooling` x `pooling`
    patches."""

    patch_size: int = 16
    pooling: int = 3

    def __post_init__(self) -> None:
        if self.patch_size < 1 or self.pooling < 1:
            raise OptionError(f"patch_size and pooling must be positive, got {self.patch_size} and {self.pooling}")

    @property
    def token_side(self) -> int:
        """Returns the pixels along a side of one soft token."""
        return self.patch_size * self.pooling


GEMMA4 = PatchLayout()


@dataclass(frozen=True, slots=True)
class TargetSize:
    """Holds the size an image is resized to, in pixels, and its soft tokens."""

    width: int
    height: int
    soft_tokens: int


def check_budget(budget: int) -> None:
    """Checks a budget of soft tokens.

    Raises:
        OptionError: the model was not trained on images of so many.
    """
    if type(budget) is not int or budget not in BUDGETS:
        raise OptionError(
            f"an image may take {', '.join(map(str, BUDGETS))} soft tokens, not {budget!r}", option="budget"
        )


def target_size(width: int, height: int, budget: int = DEFAULT_BUDGET, layout: PatchLayout = GEMMA4) -> TargetSize:
    """Returns the size an image of `width` x `height` pixels is resized to.

    Raises:
        ImageError: it has no pixels.
        OptionError: `budget` is none of `BUDGETS`.
    """
    check_budget(budget)
    if width < 1 or height < 1:
        raise ImageError(f"the image is {width} x {height}: it has no pixels")
    side, area = layout.token_side, budget * layout.token_side**2
    factor = math.sqrt(area / (width * height))
    rows, columns = math.floor(factor * height / side), math.floor(factor * width / side)
    if rows == 0:
        rows, columns = 1, min(width // height, budget)
    elif columns == 0:
        rows, columns = min(height // width, budget), 1
    return TargetSize(columns * side, rows * side, rows * columns)


def soft_tokens(width: int, height: int, budget: int = DEFAULT_BUDGET, layout: PatchLayout = GEMMA4) -> int:
    """Returns the soft tokens that an image of `width` x `height` pixels takes; see `target_size`."""
    return target_size(width, height, budget, layout).soft_tokens
