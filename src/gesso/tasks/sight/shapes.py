"""Asks about shapes in a picture: their colours, how many there are, where they are."""

import random
from dataclasses import dataclass

from gesso.tasks.base import Example
from gesso.tasks.sight.drawing import COLOURS, SHAPES, SIDE, Mark, draw_shape, encoded, new_picture, pen, shade
from gesso.tasks.sight.picture_task import PictureTask, pick

COLOUR = ("What colour is the {shape}?", "Which colour has the {shape}?", "Name the colour of the {shape}.")
COUNT = ("How many {what} are there?", "Count the {what}.", "How many {what} do you see?")
WHERE = ("Where is the {what}?", "In which part is the {what}?")
WHAT = ("What is in the {where}?", "Which shape is in the {where}?")
PLURALS = {"cross": "crosses"}
_GRID = 3
_CELL = SIDE // _GRID
MOST = 9
ROWS, COLUMNS = ("top", "middle", "bottom"), ("left", "centre", "right")


@dataclass(frozen=True, slots=True)
class Placed:
    """Describes one shape of a picture, in a cell of a grid of 3 x 3."""

    shape: str
    colour: str
    cell: int

    @property
    def where(self) -> str:
        """Names the cell, such as `top left`."""
        return f"{ROWS[self.cell // _GRID]} {COLUMNS[self.cell % _GRID]}"


def plural(shape: str) -> str:
    """Returns the plural of the name of a shape."""
    return PLURALS.get(shape, f"{shape}s")


def draw_shapes(shapes: list[Placed], rng: random.Random) -> bytes:
    """Returns a picture of shapes, each anywhere within its cell."""
    return marked_shapes(shapes, rng)[0]


def marked_shapes(shapes: list[Placed], rng: random.Random) -> tuple[bytes, list[Mark]]:
    """Returns such a picture and the colours, the kinds and the names of the cells in it, where they are."""
    picture, marks = new_picture(rng), []
    draw = pen(picture)
    for placed in shapes:
        radius = rng.randint(9, _CELL // 2 - 2)
        reach = _CELL // 2 - radius
        row, column = divmod(placed.cell, _GRID)
        centre = tuple(_CELL * place + _CELL // 2 + rng.randint(-reach, reach) for place in (column, row))
        draw_shape(draw, placed.shape, (centre[0], centre[1]), radius, shade(placed.colour, rng))
        words = (placed.colour, placed.shape, *placed.where.split())
        marks.append(Mark(centre[0], centre[1], words))
    return encoded(picture), marks


def cells(rng: random.Random, count: int) -> list[int]:
    """Draws distinct cells."""
    return rng.sample(range(_GRID**2), count)


def draw_distinct(rng: random.Random, count: int) -> list[Placed]:
    """Draws shapes that differ in kind, and in colour."""
    kinds, colours = rng.sample(SHAPES, count), rng.sample(sorted(COLOURS), count)
    return [Placed(*parts) for parts in zip(kinds, colours, cells(rng, count), strict=True)]


def ask_colour(rng: random.Random, shape: Placed) -> tuple[str, str]:
    """Asks for the colour of a shape; returns question and answer."""
    return pick(rng, COLOUR, shape=shape.shape), shape.colour


def ask_place(rng: random.Random, shape: Placed) -> tuple[str, str]:
    """Asks where a shape is."""
    return pick(rng, WHERE, what=rng.choice((shape.shape, f"{shape.colour} {shape.shape}"))), shape.where


def ask_shape(rng: random.Random, shape: Placed) -> tuple[str, str]:
    """Asks what is where a shape is."""
    return pick(rng, WHAT, where=shape.where), f"{shape.colour} {shape.shape}"


def ask_count(rng: random.Random, what: str, count: int) -> tuple[str, str]:
    """Asks how many of something there are."""
    return pick(rng, COUNT, what=what), str(count)


class Colours(PictureTask):
    """Asks such as `What colour is the star?` -> `red`."""

    name = "sight-colours"

    def sample(self, rng: random.Random) -> Example:
        """Draws one to four shapes and asks for one of them."""
        shapes = draw_distinct(rng, rng.randint(1, 4))
        prompt, answer = ask_colour(rng, rng.choice(shapes))
        return Example(self.name, prompt, answer, kind=f"of {len(shapes)}", images=(draw_shapes(shapes, rng),))


class Counts(PictureTask):
    """Asks such as `How many stars are there?` -> `3`."""

    name = "sight-counts"

    def sample(self, rng: random.Random) -> Example:
        """Draws a number of shapes, and others beside them: of other kinds, or of other colours."""
        kind, what, count, shapes = draw_counted(rng)
        prompt, answer = ask_count(rng, what, count)
        return Example(self.name, prompt, answer, kind=kind, images=(draw_shapes(shapes, rng),))


def draw_counted(rng: random.Random) -> tuple[str, str, int, list[Placed]]:
    """Draws shapes to be counted, all or those of a kind or of a colour, and others beside them.

    Returns:
        by what they are told apart (`shapes`, `kind`, `colour`), what is asked for, how many there are, all shapes.
    """
    kind = rng.choice(("shapes", "kind", "colour"))
    count = rng.randint(1, MOST)
    others = 0 if kind == "shapes" else rng.randint(0, min(4, MOST - count))
    shape, colour = rng.choice(SHAPES), rng.choice(sorted(COLOURS))
    other_shapes = [name for name in SHAPES if kind != "kind" or name != shape]
    other_colours = [name for name in sorted(COLOURS) if kind != "colour" or name != colour]
    asked = [
        (shape if kind == "kind" else rng.choice(SHAPES), colour if kind == "colour" else rng.choice(sorted(COLOURS)))
        for _ in range(count)
    ]
    beside = [(rng.choice(other_shapes), rng.choice(other_colours)) for _ in range(others)]
    places = cells(rng, count + others)
    shapes = [Placed(*one, place) for one, place in zip([*asked, *beside], places, strict=True)]
    return kind, {"shapes": "shapes", "kind": plural(shape), "colour": f"{colour} shapes"}[kind], count, shapes


class Positions(PictureTask):
    """Asks such as `Where is the ring?` -> `top left`, and the other way round."""

    name = "sight-positions"

    def sample(self, rng: random.Random) -> Example:
        """Draws one to four shapes and asks for one's place, or for what is in a place."""
        shapes = draw_distinct(rng, rng.randint(1, 4))
        asked = rng.choice(shapes)
        kind = rng.choice(("where", "what"))
        prompt, answer = (ask_place if kind == "where" else ask_shape)(rng, asked)
        return Example(self.name, prompt, answer, kind=kind, images=(draw_shapes(shapes, rng),))
