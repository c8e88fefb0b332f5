"""Decodes an image file to a Pillow image, upright and within limits.

Its size is read from the header first, and nothing is decoded where that, or a tile of it, is too large, or where the
decoder would go through it too often. A file may lie about anything else, so every failure of the decoder is the file's
fault and becomes an `ImageError`.
"""

import io
from typing import TYPE_CHECKING, cast

from gesso.errors import ImageError
from gesso.vision.jpeg import check_scans
from gesso.vision.limits import LIMITS, ImageLimits
from gesso.vision.pillow import require_pillow
from gesso.vision.webp import webp_size

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.TiffImagePlugin import TiffImageFile

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "AVIF")
"""Those read: raster formats of bounded decoders. (Pillow hands EPS to another program; it is not among them.)"""

_PNG_BITS = 24
"""Byte of a PNG that says how many bits a channel has."""
_TILE_SIDES = (322, 323)
"""TIFF's tags of the width and the height of a tile."""
MOST_TILES = 2**18
"""Tiles or strips of a TIFF, each of which is decoded by itself: those of the largest picture in tiles of 16 x 16."""


def open_image(data: bytes, name: str = "the image", limits: ImageLimits = LIMITS) -> "Image":
    """Opens an image file, or the first frame of an animation, in the mode it is stored in; nothing but its header is
    decoded yet.

    Args:
        name: by which errors call it.

    Raises:
        ImageError: no known format, a damaged header, or too many pixels.
    """
    require_pillow()
    from PIL import Image, UnidentifiedImageError

    limits.check_bytes(len(data), name)
    if (size := webp_size(data)) is not None:  # whose decoder takes memory for all pixels as soon as it is opened
        limits.check_pixels(*size, name)
    try:
        image = Image.open(io.BytesIO(data), formats=[known for known in FORMATS if known in Image.OPEN])
        size = image.size
    except UnidentifiedImageError:
        raise ImageError(f"{name} is no image of a format that is read: {', '.join(FORMATS)}") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise ImageError(f"{name} has too many pixels: at most {limits.max_pixels:,} in all are decoded") from None
    except Exception as error:
        raise damaged(name, error) from None
    limits.check_pixels(*size, name)
    if image.format in ("JPEG", "MPO"):
        check_scans(data, size[0] * size[1], name, limits)
    if image.format == "TIFF":
        _check_tiles(image, name, limits)
    if image.format == "PNG":
        _scale_transparency(image, data)
    return image


def _scale_transparency(image: "Image", data: bytes) -> None:
    """Brings the colour that is transparent, which a PNG gives in its own bits, to the eight of Pillow's pixels.

    Grey of 16 bits keeps them, and its colour with them; of 16-bit colours the upper bytes are compared.
    """
    colour, bits = image.info.get("transparency"), data[_PNG_BITS]
    if isinstance(colour, int) and image.mode == "L" and bits in (2, 4):
        image.info["transparency"] = colour * 255 // (2**bits - 1)
    elif isinstance(colour, tuple) and bits == 16:
        image.info["transparency"] = tuple(value >> 8 for value in colour)


def _check_tiles(image: "Image", name: str, limits: ImageLimits) -> None:
    """Refuses tiles that are too large or too many: a whole one is decoded, however little of it the image shows."""
    if (count := len(cast("TiffImageFile", image).tile)) > MOST_TILES:
        raise ImageError(f"{name} has {count:,} tiles or strips; at most {MOST_TILES:,} are decoded")
    tags = cast("TiffImageFile", image).tag_v2
    width, height = (tags.get(tag) for tag in _TILE_SIDES)
    if isinstance(width, int) and isinstance(height, int):
        limits.check_pixels(width, height, f"a tile of {name}")


def decode(data: bytes, name: str = "the image", limits: ImageLimits = LIMITS) -> "Image":
    """Opens an image file, decodes it and turns it as its EXIF orientation says.

    Raises:
        ImageError: as there, and a truncated or damaged file.
    """
    image = open_image(data, name, limits)
    return load_upright(image, name, limits)


def load_upright(image: "Image", name: str, limits: ImageLimits) -> "Image":
    """Returns the current frame of an opened file, decoded and upright."""
    from PIL import ImageOps

    try:
        image.load()
        limits.check_pixels(*image.size, name)
    except ImageError:
        raise
    except Exception as error:
        raise damaged(name, error) from None
    try:
        return ImageOps.exif_transpose(image)
    except Exception:  # noqa: BLE001 - a damaged EXIF block says nothing of the orientation
        return image


def damaged(name: str, error: Exception) -> ImageError:
    """Returns the error for a file that its decoder gave up on."""
    said = str(error).partition("\n")[0][:200] or type(error).__name__
    truncated = isinstance(error, EOFError) or "truncated" in said.lower()
    return ImageError(f"{name} is {'truncated' if truncated else 'damaged'}: {said}")
