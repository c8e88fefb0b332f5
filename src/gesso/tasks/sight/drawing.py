"""Draws small pictures with Pillow: shapes and texts, in colours that have names."""

import io
import math
import random
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from gesso.errors import OptionError
from gesso.extras import pip_install

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw
    from PIL.ImageFont import FreeTypeFont

SIDE = 96
"""Pixels along a side of a picture: 8 x 8 soft tokens of 12 x 12 pixels."""
Colour = tuple[int, int, int]
COLOURS: dict[str, Colour] = {
    "red": (214, 40, 40),
    "green": (40, 160, 60),
    "blue": (40, 80, 210),
    "yellow": (240, 205, 40),
    "orange": (245, 140, 30),
    "purple": (140, 60, 170),
    "black": (25, 25, 25),
    "pink": (245, 150, 190),
}
SHAPES = ("circle", "square", "triangle", "star", "cross", "ring")


class Mark(NamedTuple):
    """Says what stands at a point of a picture."""

    x: float
    """Pixels from the left."""
    y: float
    """Pixels from the top."""
    words: tuple[str, ...]
    """The most important one first."""


_SPREAD = 14
"""How far each part of a colour may be from the named one."""


def new_picture(rng: random.Random) -> "Image":
    """Returns an empty picture, nearly white."""
    try:
        from PIL import Image
    except ImportError:
        raise OptionError(f"pictures are drawn with Pillow: {pip_install('vision')}") from None
    return Image.new("RGB", (SIDE, SIDE), (rng.randint(236, 255), rng.randint(236, 255), rng.randint(236, 255)))


def pen(picture: "Image") -> "ImageDraw":
    """Returns what draws on a picture."""
    from PIL import ImageDraw

    return ImageDraw.Draw(picture)


def encoded(picture: "Image") -> bytes:
    """Returns the picture as a PNG file."""
    out = io.BytesIO()
    picture.save(out, "PNG", compress_level=1)
    return out.getvalue()


def shade(name: str, rng: random.Random) -> Colour:
    """Returns a colour that goes by this name."""
    red, green, blue = (max(0, min(255, part + rng.randint(-_SPREAD, _SPREAD))) for part in COLOURS[name])
    return red, green, blue


def dark(rng: random.Random) -> Colour:
    """Returns a colour that a text is written in."""
    return rng.randint(0, 110), rng.randint(0, 110), rng.randint(0, 110)


@cache
def font(size: int) -> "FreeTypeFont":
    """Returns the font that comes with Pillow.

    Raises:
        OptionError: this Pillow was built without FreeType.
    """
    from PIL import ImageFont

    found = ImageFont.load_default(size)
    if not isinstance(found, ImageFont.FreeTypeFont):
        raise OptionError("this Pillow has no FreeType, which writes texts into pictures: install a wheel of it")
    return found


def text_size(text: str, size: int) -> tuple[int, int]:
    """Returns the width and height in pixels of a text."""
    left, top, right, bottom = font(size).getbbox(text)
    return math.ceil(right - left), math.ceil(bottom - top)


def write(draw: "ImageDraw", place: tuple[int, int], text: str, size: int, colour: Colour) -> list[Mark]:
    """Writes a text whose upper left corner of ink stands at `place`; returns the middle of each sign, all in one
    line."""
    left, top, _, bottom = font(size).getbbox(text)
    draw.text((place[0] - left, place[1] - top), text, font=font(size), fill=colour)
    ends = [font(size).getlength(text[: count + 1]) for count in range(len(text))]
    middle = place[1] + (bottom - top) / 2
    return [
        Mark(place[0] - left + (begin + end) / 2, middle, (sign,))
        for sign, begin, end in zip(text, [0.0, *ends], ends, strict=False)
        if not sign.isspace()
    ]


def draw_shape(draw: "ImageDraw", shape: str, centre: tuple[int, int], radius: int, colour: Colour) -> None:
    """Draws one of `SHAPES` that fits a square of twice `radius`."""
    x, y = centre
    box = (x - radius, y - radius, x + radius, y + radius)
    if shape == "circle":
        draw.ellipse(box, fill=colour)
    elif shape == "ring":
        draw.ellipse(box, outline=colour, width=max(2, radius // 3))
    elif shape == "square":
        inner = round(radius * 0.86)
        draw.rectangle((x - inner, y - inner, x + inner, y + inner), fill=colour)
    elif shape == "cross":
        arm = max(1, radius // 3)
        draw.rectangle((x - radius, y - arm, x + radius, y + arm), fill=colour)
        draw.rectangle((x - arm, y - radius, x + arm, y + radius), fill=colour)
    elif shape == "triangle":
        draw.polygon(((x, y - radius), (x - radius, y + radius), (x + radius, y + radius)), fill=colour)
    else:
        points = []
        for corner in range(10):
            reach = radius * (1.0 if corner % 2 == 0 else 0.42)
            angle = math.pi * (corner / 5 - 0.5)
            points.append((x + reach * math.cos(angle), y + reach * math.sin(angle)))
        draw.polygon(points, fill=colour)
