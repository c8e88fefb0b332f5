"""Reads frames of video files through PyAV (FFmpeg's libraries), by the moment they are on the screen.

Only containers that hold their own streams are opened: a playlist could name other files or addresses. Moments come in
order; where the next is far off, decoding starts again at the key frame before it.
"""

import io
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from gesso.errors import ImageError, OptionError
from gesso.extras import pip_install
from gesso.vision.jpeg import check_packet
from gesso.vision.limits import VideoLimits
from gesso.vision.pillow import require_pillow

if TYPE_CHECKING:
    from PIL.Image import Image

CONTAINERS = "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,mpegts,mpeg,flv,ogg"
"""FFmpeg's names of what is opened."""
LEAST = 1.0
"""Seconds for which the last frame of a file stays on the screen at least, if the file says that it is so long."""
FAR = 2.0
"""Seconds to the next moment from which on a key frame is looked for."""


def video_frames(
    data: bytes, times: Callable[[float], Sequence[float]], name: str, limits: VideoLimits
) -> Iterator[tuple["Image", float]]:
    """Yields the frames on the screen at the moments `times` picks from the length in seconds: RGB, with their moment.

    Raises:
        ImageError: no video, a damaged or truncated one, too many pixels, or decoding took too long.
        OptionError: PyAV is not installed.
    """
    try:
        import av
    except ImportError:
        raise OptionError(f"video files need PyAV: {pip_install('video')}") from None
    require_pillow()
    clip = _Clip(av, data, name, limits)
    try:
        for moment in times(clip.duration):
            frame = clip.at(moment)
            if frame is None:  # the file says that it is longer than it is
                break
            yield _upright(frame), moment
    except ImageError:
        raise
    except Exception as error:
        raise ImageError(f"{name} is truncated or damaged: {_describe(error)}") from None
    finally:
        clip.close()


class _Clip:
    """An opened file, decoded from front to back: `at` takes moments in order."""

    def __init__(self, av: Any, data: bytes, name: str, limits: VideoLimits) -> None:
        self._av, self._data, self._name, self._limits = av, data, name, limits
        self._deadline = time.monotonic() + limits.max_seconds
        self._jumps = True
        self._container: Any = None
        try:
            self._open()
            self.duration = self._length() or _scanned_length(av, data)
        except Exception as error:
            self.close()
            if isinstance(error, ImageError):
                raise
            raise ImageError(f"{name} is truncated, or no video that can be read: {_describe(error)}") from None

    def _open(self) -> None:
        """Stand before the first frame."""
        self.close()
        self._container = _open(self._av, self._data)
        streams = self._container.streams.video
        if not streams:
            raise ImageError(f"{self._name} holds no video")
        self._stream = streams[0]
        self._check(self._stream.width, self._stream.height)
        self._frames = self._decode()
        self._shown: Any = None
        self._lasts = LEAST
        self._next: Any = next(self._frames, None)
        if self._next is None:
            raise ImageError(f"{self._name} holds no frame that can be decoded")
        self._begin = float(self._next.time)

    def close(self) -> None:
        if self._container is not None:
            self._container.close()

    def at(self, moment: float) -> Any:
        """The frame on the screen so many seconds after the first; None where the file ended before, and its last frame
        was given."""
        if self._jumps and self._next is not None and moment - self._second(self._next) > FAR:
            self._jump(moment)
        given = self._shown
        while self._next is not None and self._second(self._next) <= moment + 1e-6:
            shown, self._shown, self._next = self._shown, self._next, next(self._frames, None)
            self._lasts = max(LEAST, self._second(self._shown) - self._second(shown or self._shown), self._told())
        ended = self._next is None and moment > self._second(self._shown) + self._lasts
        return None if ended and given is self._shown else self._shown

    def _told(self) -> float:
        """Seconds that the frame on the screen says it stays there; 0 where it does not."""
        frame = self._shown
        return float((getattr(frame, "duration", 0) or 0) * (frame.time_base or 0))

    def _jump(self, moment: float) -> None:
        """Go on at the key frame before a moment. Where there is none ahead, or the container does not find it, all is
        read from the beginning: jumping back again and again would cost more."""
        reached = self._second(self._next)
        try:
            self._container.seek(int((moment + self._begin) / self._stream.time_base), stream=self._stream)
            self._frames = self._decode()
            found = next(self._frames, None)
        except self._av.FFmpegError:
            found = None
        if found is not None and reached <= self._second(found) <= moment:
            self._shown, self._next = None, found
            return
        self._jumps = False
        self._open()

    def _second(self, frame: Any) -> float:
        """When a frame comes onto the screen, from the first on."""
        return float(frame.time) - self._begin

    def _decode(self) -> Iterator[Any]:
        jpegs = self._stream.codec_context.name == "mjpeg"
        for packet in self._container.demux(self._stream):
            if jpegs:
                check_packet(bytes(packet), self._name)
            try:
                frames = packet.decode()
            except self._av.error.InvalidDataError:
                continue  # a damaged packet is left out, as players do
            for frame in frames:
                self._check_time()
                self._check(frame.width, frame.height)
                if frame.time is not None:
                    yield frame
            self._check_time()

    def _length(self) -> float:
        """Seconds, as the stream or the container says; 0 where neither does."""
        stream = self._stream
        if stream.duration is not None and stream.time_base is not None:
            return max(0.0, float(stream.duration * stream.time_base))
        return max(0.0, float((self._container.duration or 0) / self._av.time_base))

    def _check(self, width: int, height: int) -> None:
        self._limits.frame.check_pixels(width, height, self._name)

    def _check_time(self) -> None:
        if time.monotonic() > self._deadline:
            raise ImageError(f"{self._name} takes more than {self._limits.max_seconds:g} s to decode")


def _open(av: Any, data: bytes) -> Any:
    return av.open(io.BytesIO(data), options={"format_whitelist": CONTAINERS})


def _scanned_length(av: Any, data: bytes) -> float:
    """Seconds of a file that does not say, as live recordings do not: where its last packet ends."""
    with _open(av, data) as container:
        begins, end = None, 0.0
        for packet in container.demux(container.streams.video[0]):
            if packet.pts is not None and packet.time_base is not None:
                begins = packet.pts if begins is None else min(begins, packet.pts)
                end = max(end, float((packet.pts + (packet.duration or 0) - begins) * packet.time_base))
    return end


def _upright(frame: Any) -> "Image":
    """A frame in RGB, turned as the file says: telephones store what was filmed upright lying on its side."""
    from PIL import Image

    picture = Image.fromarray(frame.to_ndarray(format="rgb24"))
    turn = getattr(frame, "rotation", 0) or 0
    return picture.rotate(turn, expand=True) if turn % 360 else picture


def _describe(error: Exception) -> str:
    # FFmpeg's own words: the whole text has a number before them, and behind them a file name, of which there is none.
    said = getattr(error, "strerror", None) or str(error)
    return said.partition("\n")[0][:200] or type(error).__name__
