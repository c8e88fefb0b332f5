"""Converts images of any mode to RGB of eight bits: alpha over white, sixteen bits to their upper eight.

Pillow clips sixteen-bit grey to white when it converts, so that is done here. Work goes strip by strip: a picture of
many pixels is never held in more than its own mode, one strip, and RGB.
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gesso.errors import ImageError
from gesso.vision.pillow import require_pillow

if TYPE_CHECKING:
    from PIL.Image import Image

STRIP = 1 << 20
"""Pixels converted at a time."""
_PREMULTIPLIED = {"La": "LA", "RGBa": "RGBA"}


def to_rgb(image: "Image", name: str = "the image") -> "Image":
    """Converts the image to RGB; what is transparent shows white.

    Args:
        name: by which errors call it.

    Raises:
        ImageError: numbers outside the range of the picture's mode, floats in mode F that end at 1, or a mode without a
            way to RGB.
    """
    from PIL import Image

    if image.mode == "RGB" and image.info.get("transparency") is None:
        return image
    out = Image.new("RGB", image.size)
    rows = max(1, STRIP // image.width)
    if image.mode == "F":
        _check_range(image, name)
    try:
        for top in range(0, image.height, rows):
            strip = image.crop((0, top, image.width, min(top + rows, image.height)))
            out.paste(_strip_to_rgb(strip, name), (0, top))
    except ImageError:
        raise
    except Exception as error:
        raise ImageError(f"{name} cannot be converted from {image.mode} to RGB: {error}") from None
    return out


def _strip_to_rgb(image: "Image", name: str) -> "Image":
    from PIL import Image

    if image.mode.startswith("I"):
        wide, clear = np.asarray(image), image.info.get("transparency")
        image = Image.fromarray(np.where(wide == clear, 255, _upper_byte(wide, name)).astype(np.uint8))
    elif image.mode == "F":
        _check_float(np.asarray(image), name)
    elif image.mode in _PREMULTIPLIED:
        image = image.convert(_PREMULTIPLIED[image.mode])
    if image.info.get("transparency") is None:
        image.info.pop("transparency", None)  # Pillow would take even None for a colour
    if image.has_transparency_data:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, (255, 255, 255, 255))
        return Image.alpha_composite(white, image).convert("RGB")
    return image.convert("RGB")


def _upper_byte(values: NDArray[np.generic], name: str) -> NDArray[np.uint8]:
    """Numbers of 16 bits to 8, as Pillow takes sixteen-bit colour."""
    wide = values.astype(np.int64)
    if wide.min() < 0 or wide.max() > 65535:
        raise ImageError(f"{name} holds numbers from {wide.min()} to {wide.max()}; grey of 16 bits ends at 65535")
    return (wide >> 8).astype(np.uint8)


def _check_range(image: "Image", name: str) -> None:
    """Refuses floats that were meant as shares of white: Pillow takes all of them for black."""
    _, largest = image.getextrema()
    if isinstance(largest, int | float) and 0 < largest <= 1:
        raise ImageError(
            f"{name} holds floats up to {largest:g}, and Pillow's mode F goes to 255: all of it would be black; "
            "multiply it by 255, or give an array of floats in [0, 1]"
        )


def _check_float(values: NDArray[np.generic], name: str) -> None:
    """Pillow's mode F is read as 0 to 255; not-a-number is refused."""
    if not np.isfinite(values.astype(np.float32)).all():
        raise ImageError(f"{name} holds numbers that are not finite")


def from_array(array: NDArray[np.generic], name: str = "the array") -> "Image":
    """Makes an image of an array [H, W], or [H, W, channels] of 1 (grey), 3 (RGB) or 4 (RGB and alpha) channels.

    Numbers of uint8 are taken as they are, of uint16 by their upper byte, floats must lie in [0, 1].

    Raises:
        ImageError: another shape, another type, or floats outside of [0, 1].
    """
    require_pillow()
    from PIL import Image

    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3 or array.shape[2] not in (1, 3, 4) or 0 in array.shape:
        shape = list(array.shape)
        raise ImageError(f"{name} has shape {shape}: give [height, width] or [height, width, 1, 3 or 4 channels]")
    height, width, channels = array.shape
    out = np.empty((height, width, 3), np.uint8)
    rows = max(1, STRIP // width)
    for top in range(0, height, rows):
        strip = _to_uint8(array[top : top + rows], name)
        if channels == 4:
            alpha = strip[..., 3:] / 255
            strip = np.round(alpha * strip[..., :3] + (1 - alpha) * 255).astype(np.uint8)
        out[top : top + rows] = strip
    return Image.fromarray(out)


def _to_uint8(array: NDArray[np.generic], name: str) -> NDArray[np.uint8]:
    if array.dtype == np.uint8:
        return array.astype(np.uint8, copy=False)
    if array.dtype == np.uint16:
        return (array.astype(np.uint16) >> 8).astype(np.uint8)
    if not np.issubdtype(array.dtype, np.floating):
        raise ImageError(f"{name} holds {array.dtype}; give uint8, uint16, or floats in [0, 1]")
    values = array.astype(np.float64)
    if not (values.min() >= 0 and values.max() <= 1):  # which not-a-number is not, either
        raise ImageError(f"{name} holds floats outside of [0, 1]; give uint8, uint16, or floats in [0, 1]")
    return np.round(values * 255).astype(np.uint8)
