"""Cuts images into the patches that the vision tower reads, exactly as Gemma 4's image processor over Pillow does.

H, W pixels of the resized picture   P = rows x columns patches   V = 3 x patch_size**2 numbers of a patch
"""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Union

import numpy as np
from numpy.typing import NDArray

from gesso.errors import ImageError
from gesso.vision.colour import from_array, to_rgb
from gesso.vision.decode import decode
from gesso.vision.limits import LIMITS, ImageLimits
from gesso.vision.pillow import require_pillow
from gesso.vision.size import DEFAULT_BUDGET, GEMMA4, PatchLayout, check_budget, target_size
from gesso.vision.source import read_bytes

if TYPE_CHECKING:
    from PIL.Image import Image

ImageSource = Union[str, Path, bytes, "Image", NDArray[np.generic]]
"""A path, a data URL, an encoded file's bytes, a Pillow image, or an array [H, W] or [H, W, channels]."""

VERSION = b"gesso image 2"
"""Goes into every digest; changes whenever the same picture would give other pixels."""
_UNIT = (np.arange(256) * (1 / 255)).astype(np.float32)
"""A byte as a number in [0, 1]: the product in fp64, rounded to fp32, as the reference does."""


@dataclass(frozen=True, slots=True, eq=False)
class PreparedImage:
    """Holds an image as the tower takes it. Two with equal digests give equal embeddings."""

    rows: int
    """Patches from top to bottom."""
    columns: int
    """Patches from left to right."""
    soft_tokens: int
    """Embeddings that come of it: the length of its span in a prompt."""
    digest: str
    """SHA-256 of the resized pixels, their size, the layout and `VERSION`, in hexadecimal."""
    patches: NDArray[np.uint8] = field(repr=False)
    """[P, V], patches row by row, and inside a patch by row, column and channel (RGB)."""

    def pixel_values(self) -> NDArray[np.float32]:
        """Returns the patches as numbers in [0, 1], [P, V]."""
        return _UNIT[self.patches]


def load_image(source: ImageSource, limits: ImageLimits = LIMITS) -> "Image":
    """Loads an image in RGB, from whatever a user names it by.

    Encoded files are turned as their EXIF orientation says; a Pillow image is taken as its pixels stand.

    Raises:
        ImageError: it cannot be read, or is too large.
        OptionError: Pillow is not installed.
    """
    if isinstance(source, np.ndarray):
        if source.ndim >= 2:
            limits.check_pixels(source.shape[1], source.shape[0], "the array")
        return from_array(source)
    if isinstance(source, str | Path | bytes):
        data, name = read_bytes(source, limits)
        return to_rgb(decode(data, name, limits), name)
    if not _is_pillow(source):
        kinds = "a path, bytes, a data URL, a Pillow image or a numpy array"
        raise ImageError(f"an image must be {kinds}, not {type(source).__name__}")
    limits.check_pixels(*source.size, "the image")
    try:
        source.load()  # which an image that was opened and not read yet may fail at
    except Exception as error:
        said = str(error) or "its file was closed before it was read"  # for which Pillow has no words
        raise ImageError(f"the image cannot be read: {said}") from None
    return to_rgb(source)


def prepare_image(
    source: ImageSource,
    budget: int = DEFAULT_BUDGET,
    layout: PatchLayout = GEMMA4,
    limits: ImageLimits = LIMITS,
) -> PreparedImage:
    """Resizes an image to at most `budget` soft tokens and cuts it into patches.

    Raises:
        ImageError: it cannot be read, or is too large.
        OptionError: `budget` is none of `BUDGETS`, or Pillow is not installed.
    """
    check_budget(budget)
    return cut(load_image(source, limits), budget, layout)


def cut(image: "Image", budget: int = DEFAULT_BUDGET, layout: PatchLayout = GEMMA4) -> PreparedImage:
    """Computes `prepare_image` of an image that is RGB already."""
    from PIL.Image import Resampling

    target = target_size(image.width, image.height, budget, layout)
    if image.size != (target.width, target.height):
        image = image.resize((target.width, target.height), Resampling.BICUBIC)
    pixels = np.asarray(image, dtype=np.uint8)
    side = layout.patch_size
    rows, columns = target.height // side, target.width // side
    # [rows, side, columns, side, 3] to [rows, columns, side, side, 3]
    grid = pixels.reshape(rows, side, columns, side, 3).swapaxes(1, 2)
    patches = np.ascontiguousarray(grid).reshape(rows * columns, -1)
    patches.setflags(write=False)
    shape = f" {rows} {columns} {layout.patch_size} {layout.pooling} ".encode()
    digest = hashlib.sha256(VERSION + shape + patches.tobytes()).hexdigest()
    return PreparedImage(rows, columns, target.soft_tokens, digest, patches)


def _is_pillow(source: object) -> bool:
    """Whether it is a Pillow image; a program without Pillow has none."""
    require_pillow()
    from PIL.Image import Image

    return isinstance(source, Image)
