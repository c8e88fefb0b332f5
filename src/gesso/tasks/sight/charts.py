"""Asks for the largest bar of a chart."""

import random

from gesso.tasks.base import Example
from gesso.tasks.sight.drawing import COLOURS, SIDE, dark, encoded, new_picture, pen, shade, text_size, write
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
        letters = rng.sample(_LETTERS, rng.randint(3, 5))
        size = rng.randint(14, 17)
        floor = SIDE - size - 3
        while True:
            heights = [rng.randint(8, floor - 4) for _ in letters]
            ordered = sorted(heights, reverse=kind == "largest")
            if abs(ordered[0] - ordered[1]) >= _GAP:
                break
        picture = new_picture(rng)
        draw, ink, one = pen(picture), dark(rng), rng.choice(sorted(COLOURS))
        step = (SIDE - 4) // len(letters)
        varied = rng.random() < 0.5
        for place, (letter, height) in enumerate(zip(letters, heights, strict=True)):
            left = 3 + place * step
            width = max(8, step - rng.randint(3, 8))
            colour = shade(rng.choice(sorted(COLOURS)) if varied else one, rng)
            draw.rectangle((left, floor - height, left + width, floor), fill=colour)
            write(draw, (left + (width - text_size(letter, size)[0]) // 2, floor + 3), letter, size, ink)
        draw.line((1, floor + 1, SIDE - 2, floor + 1), fill=ink)
        answer = letters[heights.index(ordered[0])]
        return Example(self.name, pick(rng, _ASK[kind]), answer, kind=kind, images=(encoded(picture),))
