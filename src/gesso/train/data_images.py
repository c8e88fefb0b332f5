"""Reads the images that lines of training data name: files beside the data file, or data URLs."""

import hashlib
import os
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gesso.engine.media import Media, MediaOptions, Source, take_out
from gesso.errors import DataError, UserError
from gesso.runner.protocol import VisionInput
from gesso.train.data_fields import CHANGED, parse_example
from gesso.train.numbered_lines import numbered_lines, told_with
from gesso.vision import NO_VISION
from gesso.vision.preprocess import PreparedImage
from gesso.vision.size import DEFAULT_BUDGET

_KEPT = 16
"""Images that are kept as they are, for lines of several answers."""
_NAMES = ("path", "image", "url")
Key = tuple[str, int, int, int | None]
"""Path, size, time of change and budget."""


@dataclass(frozen=True, slots=True)
class ImageFile:
    """Holds a file that an image is read from, as it was found."""

    path: Path
    status: os.stat_result


def check_source(part: Mapping[str, Any]) -> str | None:
    """Returns the key of a part of a message that names its image; None of a text, and of a data URL in OpenAI's shape.

    Raises:
        DataError: it is an image and names none.
    """
    if part["type"] != "image":
        return None
    named = next((name for name in _NAMES if part.get(name)), None)
    if named is None:
        raise DataError('an image names no file: it is written {"type": "image", "path": "a.png"}')
    return named


def find_image(name: object, folder: Path) -> ImageFile | None:
    """Returns the file that an image is named by; None where it is named by an address.

    Args:
        folder: what names of files are relative to.

    Raises:
        DataError: there is no such file.
    """
    if not isinstance(name, str) or "://" in name or name[:5].lower() == "data:":
        return None
    path = folder / name
    try:
        return ImageFile(path, path.stat())
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no path"
        raise DataError(f"image {str(path)!r} cannot be read: {why}") from None


class ImageReader:
    """Takes images out of messages and prepares them for one model."""

    def __init__(self, vision: VisionInput | None, budget: int | None) -> None:
        """
        Args:
            vision: how the model takes images; None where it has no eyes.
            budget: soft tokens that an image takes at most where its part says nothing else; None is the model's own.
        """
        self._vision = vision
        self.budget = DEFAULT_BUDGET if vision is None else budget or vision.budget
        self._options = MediaOptions(image_budget=budget)
        self._kept: OrderedDict[Key, PreparedImage] = OrderedDict()
        self._seen: dict[tuple[str, int | None], str] = {}
        """Digest of each file, in each budget, as it was first prepared."""
        self._digest = hashlib.sha256()
        self._prepared = 0

    @property
    def digest(self) -> str:
        """Returns a hash of all images that were prepared so far, in order; empty where there were none."""
        return self._digest.hexdigest() if self._prepared else ""

    def take(self, message: dict[str, Any], folder: Path) -> tuple[dict[str, Any], tuple[PreparedImage, ...]]:
        """Returns the message with bare parts in the places of its images, and the images.

        Args:
            folder: what the names of files are relative to.

        Raises:
            DataError: an image that cannot be read, or a model without eyes.
        """
        content = message.get("content")
        if not isinstance(content, list) or all(part.get("type") == "text" for part in content):
            return message, ()
        for part in content:
            check_source(part)
        if self._vision is None:
            raise DataError(f"the message holds an image, and {NO_VISION}")
        try:
            (bare,), media = take_out([message], self._options)
            return dict(bare), tuple(self._image(source, folder) for source in media.images)
        except UserError as error:
            raise DataError(str(error)) from None

    def _image(self, source: Source, folder: Path) -> PreparedImage:
        if (file := find_image(source.content, folder)) is None:
            return self._prepare(source)
        path, found = file.path, file.status
        key = str(path), found.st_size, found.st_mtime_ns, source.budget
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        image = self._prepare(Source(path, source.budget))
        # Its pixels tell, not when it was written: a file that was only touched, or copied anew, is the same.
        if self._seen.setdefault((str(path), source.budget), image.digest) != image.digest:
            raise DataError(f"image {str(path)!r} has changed since it was first read: {CHANGED}")
        self._kept[key] = image
        if len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return image

    def _prepare(self, source: Source) -> PreparedImage:
        images, _ = Media(images=[source]).prepare(self._vision, self._options)
        self._prepared += 1
        self._digest.update(images[0].digest.encode())
        return images[0]


def most_images(files: Sequence[Path]) -> int:
    """Returns the most images that any line of some files holds, for an estimate; that lines are JSON objects and
    have no key that is refused is all that is checked of them.

    Raises:
        DataError: a file cannot be read, or a line cannot.
    """
    most = 0
    for path in files:
        try:
            with path.open("rb") as file:
                for number, line in numbered_lines(file):
                    with told_with(f"{path}, line {number}"):
                        most = max(most, _images_in(line))
        except OSError as error:
            raise DataError(f"{path} cannot be read: {error.strerror}") from None
    return most


def _images_in(line: bytes) -> int:
    messages = parse_example(line, set()).get("messages")
    if not isinstance(messages, list):
        return 0
    contents = [message.get("content") for message in messages if isinstance(message, Mapping)]
    parts = [part for content in contents if isinstance(content, list) for part in content]
    return sum(isinstance(part, Mapping) and part.get("type") in ("image", "image_url") for part in parts)
