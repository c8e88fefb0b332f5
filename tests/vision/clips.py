"""Clips made here: every frame is one grey, so that a picture says which moment it is from."""

import io
from fractions import Fraction
from typing import Any

import numpy as np
from PIL import Image

from gesso.vision.preprocess import PreparedImage
from vision.pictures import encoded


def grey(level: int, width: int = 96, height: int = 64) -> Image.Image:
    return Image.new("RGB", (width, height), (level, level, level))


def level(image: PreparedImage) -> int:
    """The grey of a prepared frame."""
    return round(float(image.patches.mean()))


def animation(kind: str, levels: list[int], milliseconds: list[int] | int) -> bytes:
    frames = [grey(each) for each in levels]
    options = {"lossless": True} if kind == "WEBP" else {}
    return encoded(frames[0], kind, save_all=True, append_images=frames[1:], duration=milliseconds, **options)


def video(
    seconds: int,
    fps: int = 24,
    container: str = "mp4",
    codec: str = "mpeg4",
    key_frames: int = 12,
    size: tuple[int, int] = (96, 64),
    options: dict[str, str] | None = None,
) -> bytes:
    """A clip whose grey rises by one every tenth of a second, from 16."""
    levels = [16 + 10 * number // fps for number in range(seconds * fps)]
    return _written(levels, fps, container, codec, key_frames, size, options or {})


def slides(levels: list[int], seconds: int, container: str, codec: str) -> bytes:
    """A clip of few frames, each so many seconds on the screen."""
    return _written(levels, Fraction(1, seconds), container, codec, 1, (96, 64), {})


def _written(
    levels: list[int],
    fps: int | Fraction,
    container: str,
    codec: str,
    key_frames: int,
    size: tuple[int, int],
    options: dict[str, str],
) -> bytes:
    import av

    out = io.BytesIO()
    made: Any = av.open(out, "w", format=container, options=options)
    stream = made.add_stream(codec, rate=fps)
    stream.width, stream.height, stream.pix_fmt, stream.gop_size = *size, "yuv420p", key_frames
    for level in levels:
        pixels = np.full((size[1], size[0], 3), level, np.uint8)
        for packet in stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")):
            made.mux(packet)
    for packet in stream.encode():
        made.mux(packet)
    made.close()
    return out.getvalue()
