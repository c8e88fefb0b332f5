"""Asks for what a picture has one thing of: the first lessons of a model that learns to look."""

import random

from gesso.tasks.base import Example
from gesso.tasks.sight.picture_task import PictureTask, pick
from gesso.tasks.sight.reading import NUMBER, WORD, written
from gesso.tasks.sight.shapes import COLOUR, WHAT, WHERE, draw_distinct, draw_shapes

_LETTERS = "abcdefghijklmnoprstuvwzABCDEFGHIJKLMNOPRSTUVWZ"


class First(PictureTask):
    """Asks such as `Where is the star?` -> `top left`, of pictures with one shape, one digit or one letter."""

    name = "sight-first"

    def sample(self, rng: random.Random) -> Example:
        """Draws a shape four times of six, and asks for its colour, its place or what it is."""
        kind = rng.choice(("colour", "colour", "where", "what", "digit", "letter"))
        if kind in ("digit", "letter"):
            sign = rng.choice("0123456789" if kind == "digit" else _LETTERS)
            prompt = pick(rng, NUMBER if kind == "digit" else WORD)
            return Example(self.name, prompt, sign, kind=kind, images=(written(sign, rng),))
        (shape,) = shapes = draw_distinct(rng, 1)
        asked = {
            "colour": (pick(rng, COLOUR, shape=shape.shape), shape.colour),
            "where": (pick(rng, WHERE, what=shape.shape), shape.where),
            "what": (pick(rng, WHAT, where=shape.where), f"{shape.colour} {shape.shape}"),
        }
        prompt, answer = asked[kind]
        return Example(self.name, prompt, answer, kind=kind, images=(draw_shapes(shapes, rng),))
