"""Draws crowded pictures with everything that is in them told: what a tower learns first, before any question."""

import random
from dataclasses import dataclass

from gesso.tasks.sight.charts import marked_chart
from gesso.tasks.sight.drawing import COLOURS, SHAPES, SIDE, Mark, dark, encoded, new_picture, pen, text_size, write
from gesso.tasks.sight.reading import draw_word, marked_table
from gesso.tasks.sight.shapes import MOST, Placed, cells, marked_shapes

_SIZES = range(14, 35)
_TRIES = 12
_APART = 4
"""Pixels between two texts, at least."""


@dataclass(frozen=True, slots=True)
class Scene:
    """Holds a picture of `SIDE` x `SIDE` pixels and what is where in it."""

    picture: bytes
    """A PNG file."""
    marks: tuple[Mark, ...]


def draw_scene(rng: random.Random) -> Scene:
    """Draws texts half of the time, else shapes, a chart or a table."""
    (kind,) = rng.choices(("texts", "shapes", "chart", "table"), (0.5, 0.25, 0.15, 0.1))
    if kind == "texts":
        picture, marks = _texts(rng)
    elif kind == "shapes":
        places = cells(rng, rng.randint(1, MOST))
        shapes = [Placed(rng.choice(SHAPES), rng.choice(sorted(COLOURS)), place) for place in places]
        picture, marks = marked_shapes(shapes, rng)
    elif kind == "chart":
        picture, marks = marked_chart(rng.choice(("largest", "smallest")), rng)
    else:
        columns = rng.randint(2, 3)
        numbers = [[rng.randint(0, 99) for _ in range(columns)] for _ in range(rng.randint(2, 3))]
        picture, marks = marked_table(numbers, rng)
    return Scene(picture, tuple(marks))


def _texts(rng: random.Random) -> tuple[bytes, list[Mark]]:
    """Draws words and numbers of all sizes, as many as find a free place."""
    picture, marks = new_picture(rng), []
    draw = pen(picture)
    taken: list[tuple[int, int, int, int]] = []
    for _ in range(_TRIES):
        text, size = _text(rng), rng.choice(_SIZES)
        width, height = text_size(text, size)
        if width > SIDE - 4:
            continue
        left, top = rng.randint(2, SIDE - 2 - width), rng.randint(2, SIDE - 2 - height)
        box = (left - _APART, top - _APART, left + width + _APART, top + height + _APART)
        if any(box[0] < x1 and x0 < box[2] and box[1] < y1 and y0 < box[3] for x0, y0, x1, y1 in taken):
            continue
        taken.append((left, top, left + width, top + height))
        marks += write(draw, (left, top), text, size, dark(rng))
    return encoded(picture), marks


def _text(rng: random.Random) -> str:
    """Draws a word or a number of one to five digits."""
    if rng.random() < 0.5:
        return draw_word(rng)
    return "".join(rng.choice("0123456789") for _ in range(rng.randint(1, 5)))
