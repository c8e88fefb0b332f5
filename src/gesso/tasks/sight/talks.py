"""Asks many questions about one picture: to learn where to look takes many answers, and a picture costs more than a
question."""

import random

from gesso.tasks.base import Example
from gesso.tasks.sight.drawing import COLOURS, SHAPES
from gesso.tasks.sight.picture_task import PictureTask
from gesso.tasks.sight.shapes import (
    MOST,
    Placed,
    ask_colour,
    ask_count,
    ask_place,
    ask_shape,
    cells,
    draw_distinct,
    draw_shapes,
    plural,
)

_MOST_QUESTIONS = 8
_COUNTS_SHARE = 0.75
"""Share of the pictures whose shapes are counted: to count takes far more of them than to find a shape."""
_FEW = 3
"""Kinds and colours at most where shapes are counted, so that there are several of most."""


class Talks(PictureTask):
    """Asks for the colour and the place of every shape and for what is where, or how many of each there are."""

    name = "sight-talks"

    def sample(self, rng: random.Random) -> Example:
        """Draws a picture of shapes that differ or of many that are alike, and up to eight questions in any order."""
        counts = rng.random() < _COUNTS_SHARE
        shapes = _draw_alike(rng) if counts else draw_distinct(rng, rng.randint(1, 4))
        turns = (_counts if counts else _shapes)(rng, shapes)
        rng.shuffle(turns)
        *before, (prompt, answer) = turns[:_MOST_QUESTIONS]
        return Example(
            self.name, prompt, answer, kind="counts" if counts else "shapes", images=(draw_shapes(shapes, rng),),
            history=tuple(text for turn in before for text in turn),
        )  # fmt: skip


def _draw_alike(rng: random.Random) -> list[Placed]:
    kinds, colours = (rng.sample(names, rng.randint(1, _FEW)) for names in (SHAPES, sorted(COLOURS)))
    places = cells(rng, rng.randint(1, MOST))
    return [Placed(rng.choice(kinds), rng.choice(colours), place) for place in places]


def _shapes(rng: random.Random, shapes: list[Placed]) -> list[tuple[str, str]]:
    return [ask(rng, shape) for shape in shapes for ask in (ask_colour, ask_place, ask_shape)]


def _counts(rng: random.Random, shapes: list[Placed]) -> list[tuple[str, str]]:
    kinds = {name: sum(shape.shape == name for shape in shapes) for name in SHAPES}
    colours = {name: sum(shape.colour == name for shape in shapes) for name in sorted(COLOURS)}
    return [
        ask_count(rng, "shapes", len(shapes)),
        *(ask_count(rng, plural(name), count) for name, count in kinds.items() if count),
        *(ask_count(rng, f"{name} shapes", count) for name, count in colours.items() if count),
    ]
