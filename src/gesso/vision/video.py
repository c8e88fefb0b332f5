"""Samples clips as images with times: which frames of a clip the model sees, and what stands before each.

The model has no path for video. It sees frames as images of `VIDEO_BUDGET` soft tokens each, with the minute and the
second before each. Frames come from the caller, as (picture, seconds), or from a file: GIF, WebP and animated PNG
through Pillow, all else through PyAV, which is optional.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gesso.errors import ImageError, OptionError
from gesso.vision.animation import animation_frames, is_animation
from gesso.vision.limits import LIMITS, VIDEO_LIMITS, ImageLimits, VideoLimits
from gesso.vision.preprocess import ImageSource, PreparedImage, cut, load_image
from gesso.vision.size import GEMMA4, VIDEO_BUDGET, PatchLayout, check_budget
from gesso.vision.source import read_bytes
from gesso.vision.video_file import video_frames

if TYPE_CHECKING:
    from PIL.Image import Image

FPS = 1.0
MAX_FRAMES = 60

VideoSource = str | Path | bytes | Sequence[tuple[ImageSource, float]]
"""A path, a data URL, an encoded file's bytes, or frames with the second each is shown at."""


class PreparedFrame(NamedTuple):
    """Holds a frame as the tower takes it, and its time."""

    seconds: float
    image: PreparedImage

    @property
    def timestamp(self) -> str:
        """Returns what stands before it in a prompt, followed by a blank: `mm:ss`. Frames of a clip are joined by a
        blank."""
        return timestamp(self.seconds)


@dataclass(frozen=True, slots=True)
class Sampling:
    """Says which moments of a clip are shown: `fps` a second from its beginning, or, where these would be more than
    `max_frames`, so many spread evenly over its length. The frame of a moment is the one on the screen then."""

    fps: float = FPS
    max_frames: int = MAX_FRAMES

    def __post_init__(self) -> None:
        if not (isinstance(self.fps, int | float) and 0 < self.fps < math.inf):
            raise OptionError(f"fps must be a positive number, got {self.fps!r}", option="fps")
        if not isinstance(self.max_frames, int) or self.max_frames < 1:
            raise OptionError(f"max_frames must be a positive integer, got {self.max_frames!r}", option="max_frames")

    def times(self, duration: float) -> list[float]:
        """Returns the moments of a clip of so many seconds: 0 first, all before its end, in order."""
        count = max(1, math.ceil(min(duration * self.fps, self.max_frames + 1) - 1e-9))
        if count <= self.max_frames:
            return [i / self.fps for i in range(count)]
        return [i * duration / self.max_frames for i in range(self.max_frames)]


def timestamp(seconds: float) -> str:
    """Writes minutes and whole seconds, `mm:ss`, rounded down; from 100 minutes on with more digits."""
    whole = int(seconds)
    return f"{whole // 60:02d}:{whole % 60:02d}"


def prepare_video(
    source: VideoSource,
    budget: int = VIDEO_BUDGET,
    sampling: Sampling | None = None,
    layout: PatchLayout = GEMMA4,
    limits: VideoLimits = VIDEO_LIMITS,
) -> list[PreparedFrame]:
    """Returns the frames of a clip, in order.

    Args:
        source: a file is sampled; a list of frames is taken whole, so it may not have more than `max_frames`.
        sampling: 1 frame a second up to 60 where it is not given.

    Raises:
        ImageError: it cannot be read, is too large, or its frames are not in order.
        OptionError: `budget` is none of the budgets, or Pillow or PyAV is needed and not installed.
    """
    check_budget(budget)
    chosen = sampling or Sampling()
    frames = (
        _from_file(source, chosen, limits)
        if isinstance(source, str | Path | bytes)
        else _given(source, chosen, limits.frame)
    )
    return [PreparedFrame(seconds, cut(image, budget, layout)) for image, seconds in frames]


def _from_file(source: str | Path | bytes, sampling: Sampling, limits: VideoLimits) -> Iterator[tuple["Image", float]]:
    data, name = read_bytes(source, limits.frame, _kind(source))
    if is_animation(data):
        return animation_frames(data, sampling.times, name, limits)
    return video_frames(data, sampling.times, name, limits)


def _kind(source: str | Path | bytes) -> str:
    """What a data URL must hold: an animation's media type is that of an image."""
    return "image" if isinstance(source, str) and source[:11].lower() == "data:image/" else "video"


def _given(
    source: Iterable[tuple[ImageSource, float]], sampling: Sampling, limits: ImageLimits = LIMITS
) -> Iterator[tuple["Image", float]]:
    last = -math.inf
    if not isinstance(source, Iterable):
        raise ImageError("a clip must be a path, bytes, a data URL or a list of (picture, seconds)")
    frames = list(source)
    if not frames:
        raise ImageError("the clip has no frames")
    if len(frames) > sampling.max_frames:
        raise ImageError(f"the clip has {len(frames)} frames, more than max_frames, which is {sampling.max_frames}")
    for number, frame in enumerate(frames, 1):
        if not isinstance(frame, tuple | list) or len(frame) != 2:
            raise ImageError(f"frame {number} of the clip must be (picture, seconds)")
        picture, seconds = frame
        known = isinstance(seconds, int | float) and not isinstance(seconds, bool)
        if not known or not 0 <= seconds < math.inf or seconds < last:
            raise ImageError(f"frame {number} of the clip is at {seconds!r}: seconds must be numbers that do not fall")
        last = seconds
        try:
            yield load_image(picture, limits), float(seconds)
        except ImageError as error:
            raise ImageError(f"frame {number} of the clip: {error}") from None
