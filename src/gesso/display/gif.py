"""Draws a replay as an animated GIF, for places that show nothing else, with Pillow."""

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gesso.display.layout import LINE_BREAK, Picture, Run
from gesso.errors import OptionError
from gesso.extras import pip_install

if TYPE_CHECKING:
    from PIL import Image, ImageDraw

SIZE = 15
WIDTH, HEIGHT, MARGIN = 9, 24, 14
"""Width of a column, height of a line, margin around all, in pixels."""
MOST_PIXELS = 2**16 - 1
"""Longest side that a GIF can have."""
STEP_MILLISECONDS, LAST_MILLISECONDS = 300, 2500
LATIN_BREAK = "\N{PILCROW SIGN}"
"""Marks the end of a line, where the font has no arrow."""
GROUND, TEXT, DIM = "#ffffff", "#15191e", "#505a66"
FILLS = {"sure": "#cfe2f9", "likely": "#e9f1fb", "open": "#fdebcb", "noise": "#f9cd91"}


def gif_bytes(pictures: Sequence[Picture], columns: int, font: str | Path | None = None) -> bytes:
    """Returns the file.

    Args:
        pictures: one for each step, one at least.
        columns: of a line.
        font: a TrueType or OpenType file, for scripts that Pillow's own font, which is Latin, does not have.

    Raises:
        OptionError: Pillow is missing, the font cannot be read, or the picture is higher than a GIF can be.
    """
    try:
        from PIL import Image, ImageDraw
    except ModuleNotFoundError:
        raise OptionError(f"Pillow is missing; a GIF needs {pip_install('vision')}", option="gif") from None
    face = _face(font)
    lines = max(picture.lines for picture in pictures)
    size = (columns * WIDTH + 2 * MARGIN, (lines + 2) * HEIGHT + 2 * MARGIN)
    if max(size) > MOST_PIXELS:
        most = (MOST_PIXELS - 2 * MARGIN) // HEIGHT - 2
        raise OptionError(
            f"a GIF has no room for {lines:,} lines of prompt and answer, {most:,} at most: SVG and HTML have",
            option="gif",
        )

    def drawn(picture: Picture) -> "Image.Image":
        image = Image.new("RGB", size, GROUND)
        draw = ImageDraw.Draw(image)
        for run in picture.runs:
            text = run.text.replace(LINE_BREAK, LATIN_BREAK) if font is None else run.text
            _draw_run(draw, run, text, face)
        draw.text((MARGIN, MARGIN + (lines + 1) * HEIGHT), picture.status, fill=DIM, font=face)
        return image.quantize(64)

    first, *rest = pictures
    times = [STEP_MILLISECONDS] * len(rest) + [LAST_MILLISECONDS]
    file = BytesIO()
    # One at a time: all of them would take hundreds of megabytes where the text is long.
    drawn(first).save(
        file, "GIF", save_all=True, append_images=map(drawn, rest), duration=times, loop=0, optimize=False
    )
    return file.getvalue()


def _face(font: str | Path | None) -> Any:
    from PIL import ImageFont

    if font is None:
        return ImageFont.load_default(SIZE)
    try:
        return ImageFont.truetype(str(font), SIZE)
    except OSError as error:
        raise OptionError(f"{font} cannot be read as a font: {error}", option="font") from None


def _draw_run(draw: "ImageDraw.ImageDraw", run: Run, text: str, face: Any) -> None:
    left, top = MARGIN + run.column * WIDTH, MARGIN + run.line * HEIGHT
    if run.style in FILLS:
        right = left + run.columns * WIDTH
        draw.rectangle((left, top, right - 1, top + HEIGHT - 3), fill=FILLS[run.style])
        if run.accepted:
            draw.line((left, top + HEIGHT - 3, right - 1, top + HEIGHT - 3), fill=TEXT, width=2)
    if run.columns != len(text):  # wide or combined characters: the font lays them out
        draw.text((left, top + 2), text, fill=DIM if run.style == "dim" else TEXT, font=face)
        return
    for place, character in enumerate(text):
        middle = left + place * WIDTH + WIDTH / 2
        draw.text((middle, top + 2), character, fill=DIM if run.style == "dim" else TEXT, font=face, anchor="ma")
