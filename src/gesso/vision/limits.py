"""Bounds the size of an image or a clip before any of it is decoded."""

from dataclasses import dataclass

from gesso.errors import ImageError, OptionError


@dataclass(frozen=True, slots=True)
class ImageLimits:
    """Bounds one image; a clip's frames are bounded by `max_pixels` each."""

    max_bytes: int = 32 * 2**20
    """Bytes of the encoded file."""
    max_pixels: int = 64 * 10**6
    """Width times height. Decoding takes up to about a dozen bytes a pixel."""

    def __post_init__(self) -> None:
        if self.max_bytes < 1 or self.max_pixels < 1:
            raise OptionError(f"limits of images must be positive, got {self.max_bytes} and {self.max_pixels}")

    def check_bytes(self, found: int, what: str) -> None:
        """Checks the size of a file.

        Raises:
            ImageError: it has too many bytes.
        """
        if found > self.max_bytes:
            raise ImageError(f"{what} has {found:,} bytes or more; at most {self.max_bytes:,} are read")

    def check_pixels(self, width: int, height: int, what: str) -> None:
        """Checks the size of an image.

        Raises:
            ImageError: it has too many pixels, or none.
        """
        if width < 1 or height < 1:
            raise ImageError(f"{what} is {width} x {height}: it has no pixels")
        if width * height > self.max_pixels:
            raise ImageError(f"{what} is {width} x {height} pixels; at most {self.max_pixels:,} in all are decoded")


LIMITS = ImageLimits()


@dataclass(frozen=True, slots=True)
class VideoLimits:
    """Bounds one clip."""

    max_bytes: int = 512 * 2**20
    """Bytes of the encoded file."""
    max_pixels: int = 64 * 10**6
    """Width times height of a frame."""
    max_seconds: float = 60.0
    """Seconds that decoding may take."""

    def __post_init__(self) -> None:
        if self.max_bytes < 1 or self.max_pixels < 1 or not self.max_seconds > 0:
            raise OptionError(
                f"limits of clips must be positive, got {self.max_bytes}, {self.max_pixels} and {self.max_seconds}"
            )

    @property
    def frame(self) -> ImageLimits:
        """Returns the bounds on one of its frames, and on the file that holds them all."""
        return ImageLimits(self.max_bytes, self.max_pixels)


VIDEO_LIMITS = VideoLimits()
