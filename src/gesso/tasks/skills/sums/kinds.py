"""Lists the kinds of sums that are drawn as a text and its answer."""

from collections.abc import Callable

from gesso.tasks.skills.patterns import Phrasings
from gesso.tasks.skills.slots import Slots
from gesso.tasks.skills.sums.amounts import DECIMALS, MONEY, PERCENT, draw_decimals, draw_money, draw_percent
from gesso.tasks.skills.sums.columns import COLUMN, INLINE, LABELLED, draw_column, draw_inline, draw_labelled
from gesso.tasks.skills.sums.quotients import (
    AVERAGE,
    DIVIDED,
    PARTS,
    REMAINDER,
    SQUARES,
    draw_average,
    draw_divided,
    draw_part,
    draw_remainder,
    draw_square,
)
from gesso.tasks.skills.sums.stories import (
    BOXES,
    CHAINS,
    DOZENS,
    MISSING,
    PLACES,
    REASONS,
    STORIES,
    THINGS,
    draw_chain,
    draw_dozens,
    draw_missing,
    draw_reason,
    draw_story,
)

KINDS: dict[str, tuple[float, Callable[[Slots, Callable[[int], str]], tuple[str, str]]]] = {
    "stories": (0.085, draw_story), "chain": (0.035, draw_chain), "dozens": (0.012, draw_dozens),
    "missing": (0.02, draw_missing), "reasons": (0.045, draw_reason), "divided": (0.04, draw_divided),
    "parts": (0.015, draw_part), "remainder": (0.02, draw_remainder), "average": (0.025, draw_average),
    "squares": (0.02, draw_square), "percent": (0.035, draw_percent), "money": (0.03, draw_money),
    "decimals": (0.015, draw_decimals), "column": (0.02, draw_column), "labelled": (0.015, draw_labelled),
    "inline": (0.015, draw_inline),
}  # fmt: skip
"""Share of each kind, and what draws it; it is given what writes a number, in digits or in words."""
PHRASINGS: dict[str, Phrasings] = {
    "things": THINGS, "boxes": BOXES, "places": PLACES, "stories": STORIES, "chains": CHAINS, "dozens": DOZENS,
    "missing": MISSING, "reasons": REASONS, "divided": DIVIDED, "parts": PARTS, "remainder": REMAINDER,
    "average": AVERAGE, "squares": SQUARES, "percent": PERCENT, "money": MONEY, "decimals": DECIMALS,
    "column": COLUMN, "labelled": LABELLED, "inline": INLINE,
}  # fmt: skip
