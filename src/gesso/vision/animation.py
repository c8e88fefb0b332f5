"""Reads frames of animated images (GIF, WebP, PNG) through Pillow, by the moment they are on the screen."""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from gesso.errors import ImageError
from gesso.vision.colour import to_rgb
from gesso.vision.decode import damaged, load_upright, open_image
from gesso.vision.limits import VideoLimits

if TYPE_CHECKING:
    from PIL.Image import Image

DEFAULT_DURATION = 100
"""Milliseconds of a frame that says nothing or zero, as browsers show it."""


def is_animation(data: bytes) -> bool:
    """Says whether a file is of a format that Pillow reads frames of."""
    return (
        data[:6] in (b"GIF87a", b"GIF89a")
        or (data[:4] == b"RIFF" and data[8:12] == b"WEBP")
        or data[:8] == b"\x89PNG\r\n\x1a\n"
    )


def animation_frames(
    data: bytes, times: Callable[[float], Sequence[float]], name: str, limits: VideoLimits
) -> Iterator[tuple["Image", float]]:
    """Yields the frames on the screen at the moments `times` picks from the length in seconds, with their moment: RGB,
    upright as the file's EXIF orientation says.

    Raises:
        ImageError: a damaged or truncated file, too many pixels, or decoding took too long.
    """
    deadline = time.monotonic() + limits.max_seconds
    ends = list(_ends(data, name, limits, deadline))
    if not ends:
        raise ImageError(f"{name} has no frames")
    image, shown = open_image(data, name, limits.frame), 0
    first = _first(image)
    picture: Image | None = None
    for moment in times(ends[-1] / 1000):
        while shown + 1 < len(ends) and ends[shown] <= round(1000 * moment, 3):
            shown, picture = shown + 1, None
            _seek(image, first + shown, name, deadline)
        if picture is None:
            _seek(image, first + shown, name, deadline)
            picture = to_rgb(load_upright(image, name, limits.frame), name)
        yield picture, moment


def _ends(data: bytes, name: str, limits: VideoLimits, deadline: float) -> Iterator[int]:
    """The millisecond at which each frame leaves the screen."""
    image, end = open_image(data, name, limits.frame), 0
    number = _first(image)
    while _seek(image, number, name, deadline):
        limits.frame.check_pixels(*image.size, name)
        duration = round(image.info.get("duration") or 0)
        end += duration if duration > 0 else DEFAULT_DURATION
        yield end
        number += 1


def _first(image: "Image") -> int:
    """Returns the number of the first frame: a PNG may hold a still before it, for viewers that show no animation."""
    return int(getattr(image, "default_image", False))


def _seek(image: "Image", number: int, name: str, deadline: float) -> bool:
    """Decodes frame `number`, which is the current one or the next; False where there is none."""
    if time.monotonic() > deadline:
        raise ImageError(f"{name} takes too long to decode")
    try:
        image.seek(number)
    except EOFError:
        return False
    except Exception as error:
        raise damaged(name, error) from None
    try:
        image.load()
    except Exception as error:
        raise damaged(name, error) from None
    return True
