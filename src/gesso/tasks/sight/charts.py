"""Asks for the largest bar of a chart."""

import random

from gesso.tasks.base import Example
from gesso.tasks.sight.drawing import COLOURS, SIDE, Mark, dark, encoded, new_picture, pen, shade, text_size, write
from gesso.tasks.sight.picture_task import PictureTask, pick

_ASK = {
    "largest": ("Which bar is the largest?", "Name the largest bar.", "Which bar is the tallest?"),
    "smallest": ("Which bar is the smallest?", "Name the smallest bar.", "Which bar is the shortest?"),
}
_LETTERS = "ABCDEFGHJKLMNPRSTUVXYZ"
_GAP = 5
"""Pixels by which the asked bar differs from every other, at least."""


class Charts(PictureTask):
    """Asks such as `Which bar is the largest?` -> `C`."""

    name = "sight-charts"

    def sample(self, rng: random.Random) -> Example:
        """Draws three to five bars, each with a letter below it."""
        kind = rng.choice(sorted(_ASK))
        picture, marks = marked_chart(kind, rng)
        answer = next(mark.words[0] for mark in marks if kind in mark.words)
        return Example(self.name, pick(rng, _ASK[kind]), answer, kind=kind, images=(picture,))


def marked_chart(kind: str, rng: random.Random) -> tuple[bytes, list[Mark]]:
    """Returns a chart of three to five bars with the letters below them, where they are.

    The letter of the largest and the one of the smallest bar say so where the bar differs enough from every other.

    Args:
        kind: `largest` or `smallest`; that bar always does.
    """
    letters = rng.sample(_LETTERS, rng.randint(3, 5))
    size = rng.randint(14, 17)
    floor = SIDE - size - 3
    while True:
        heights = [rng.randint(8, floor - 4) for _ in letters]
        standing_out = _standing_out(heights)
        if kind in standing_out.values():
            break
    picture, marks = new_picture(rng), []
    draw, ink, one = pen(picture), dark(rng), rng.choice(sorted(COLOURS))
    step = (SIDE - 4) // len(letters)
    varied = rng.random() < 0.5
    for place, (letter, height) in enumerate(zip(letters, heights, strict=True)):
        left = 3 + place * step
        width = max(8, step - rng.randint(3, 8))
        colour = shade(rng.choice(sorted(COLOURS)) if varied else one, rng)
        draw.rectangle((left, floor - height, left + width, floor), fill=colour)
        (below,) = write(draw, (left + (width - text_size(letter, size)[0]) // 2, floor + 3), letter, size, ink)
        marks.append(below._replace(words=(letter, *standing_out.get(place, "").split())))
    draw.line((1, floor + 1, SIDE - 2, floor + 1), fill=ink)
    return encoded(picture), marks


def _standing_out(heights: list[int]) -> dict[int, str]:
    """Returns the places of the largest and of the smallest bar, each only if no other comes near it."""
    ordered = sorted(heights)
    found = {}
    if ordered[-1] - ordered[-2] >= _GAP:
        found[heights.index(ordered[-1])] = "largest"
    if ordered[1] - ordered[0] >= _GAP:
        found[heights.index(ordered[0])] = "smallest"
    return found
