"""Animated GIFs of replays."""

from io import BytesIO

import pytest
from PIL import Image

from gesso.display.gif import HEIGHT, MOST_PIXELS, gif_bytes
from gesso.display.layout import Picture
from gesso.errors import OptionError


def picture(lines: int, step: int = 1) -> Picture:
    return Picture(runs=(), lines=lines, status=f"step {step}/2")


def test_every_step_is_a_frame() -> None:
    with Image.open(BytesIO(gif_bytes([picture(2), picture(3, step=2)], 20))) as image:
        assert (image.n_frames, image.height) == (2, 5 * HEIGHT + 28)  # type: ignore[attr-defined]


def test_a_picture_higher_than_a_gif_can_be_is_refused() -> None:
    most = (MOST_PIXELS - 28) // HEIGHT - 2
    with pytest.raises(OptionError, match=f"no room for {most + 1:,} lines .*, {most:,} at most") as error:
        gif_bytes([picture(1), picture(most + 1)], 8)
    assert error.value.option == "gif"
