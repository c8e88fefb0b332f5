"""Asks about two pictures, and about the order of a clip's frames."""

import random

from gesso.tasks.base import Example
from gesso.tasks.sight.drawing import COLOURS, SHAPES
from gesso.tasks.sight.picture_task import PictureTask, pick
from gesso.tasks.sight.shapes import MOST, Placed, cells, draw_distinct, draw_shapes

_MORE = ("Which picture has more shapes?", "In which picture are more shapes?")
_MISSING = ("What is missing in the second picture?", "Which shape is gone in the second picture?")
_CHANGED = ("Which shape has another colour in the second picture?", "Which shape changed its colour?")
_ORDER = ("In which order do the colours come?", "Name the colours in order.")
_AFTER = ("Which colour comes after {colour}?", "What comes after {colour}?")
_AT = ("Which colour is at {time}?", "What colour do you see at {time}?")


class Comparisons(PictureTask):
    """Asks such as `What is missing in the second picture?` -> `blue ring`, of two pictures."""

    name = "sight-comparisons"

    def sample(self, rng: random.Random) -> Example:
        """Draws two pictures: of unlike numbers of shapes, or alike but for one shape."""
        kind = rng.choice(("more", "missing", "changed"))
        if kind == "more":
            few = rng.randint(1, MOST - 2)
            counts = [few, rng.randint(few + 2, MOST)]
            rng.shuffle(counts)
            pictures = tuple(draw_shapes(_any(rng, count), rng) for count in counts)
            answer = "first" if counts[0] > counts[1] else "second"
            return Example(self.name, pick(rng, _MORE), answer, kind=kind, images=pictures)
        shapes = draw_distinct(rng, rng.randint(2, 4))
        asked = rng.choice(shapes)
        rest = [shape for shape in shapes if shape is not asked]
        if kind == "missing":
            pictures = (draw_shapes(shapes, rng), draw_shapes(rest, rng))
            answer = f"{asked.colour} {asked.shape}"
            return Example(self.name, pick(rng, _MISSING), answer, kind=kind, images=pictures)
        free = sorted(COLOURS.keys() - {shape.colour for shape in shapes})
        changed = [Placed(shape.shape, rng.choice(free), shape.cell) if shape is asked else shape for shape in shapes]
        pictures = (draw_shapes(shapes, rng), draw_shapes(changed, rng))
        return Example(self.name, pick(rng, _CHANGED), asked.shape, kind=kind, images=pictures)


def _any(rng: random.Random, count: int) -> list[Placed]:
    return [Placed(rng.choice(SHAPES), rng.choice(sorted(COLOURS)), cell) for cell in cells(rng, count)]


class Clips(PictureTask):
    """Asks such as `In which order do the colours come?` -> `red, blue, pink`, of a clip."""

    name = "sight-clips"

    def sample(self, rng: random.Random) -> Example:
        """Draws three frames of one shape each, a second apart."""
        colours = rng.sample(sorted(COLOURS), 3)
        frames = tuple(draw_shapes([Placed(rng.choice(SHAPES), colour, cells(rng, 1)[0])], rng) for colour in colours)
        kind = rng.choice(("order", "after", "at"))
        if kind == "order":
            prompt, answer = pick(rng, _ORDER), ", ".join(colours)
        elif kind == "after":
            place = rng.randint(0, 1)
            prompt, answer = pick(rng, _AFTER, colour=colours[place]), colours[place + 1]
        else:
            place = rng.randint(0, 2)
            prompt, answer = pick(rng, _AT, time=f"00:0{place}"), colours[place]
        return Example(self.name, prompt, answer, kind=kind, clip=frames)
