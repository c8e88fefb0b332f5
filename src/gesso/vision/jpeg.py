"""Counts the scans of a JPEG (ITU-T T.81) before a decoder sees them.

A progressive file sends its pixels in scans, each of which refines all of them. One that changes nothing takes a few
bytes and still has its decoder go through the whole picture, so that a small file could keep it busy for long.
"""

import re

from gesso.errors import ImageError
from gesso.vision.limits import ImageLimits

MOST_SCANS = 500
"""Scans of any picture. Encoders write about ten, and eighteen in four colours."""
LARGEST_SCANS = 32
"""Scans of the largest picture that is decoded; a smaller one may have more."""

_START_OF_SCAN, _END_OF_IMAGE, _START_OF_IMAGE = 0xDA, 0xD9, 0xD8
_MARKER = re.compile(rb"\xff([\xc0-\xcf\xd8-\xfe])")
"""Those that may have a segment of their own: neither stuffed bytes nor restarts, which stand within a scan."""


def check_scans(data: bytes, pixels: int, name: str, limits: ImageLimits) -> None:
    """Checks how often a decoder would go through all pixels of a picture.

    Raises:
        ImageError: it has too many scans for its size.
    """
    most = min(MOST_SCANS, LARGEST_SCANS * limits.max_pixels // pixels)
    # The same bytes may stand in a preview or behind the picture: only a file that has many is read marker by marker.
    if data.count(bytes([0xFF, _START_OF_SCAN])) > most and _has_more_scans(data, most):
        raise ImageError(f"{name} has more than {most} scans, which is too many for {pixels:,} pixels")


def check_packet(data: bytes, name: str) -> None:
    """Checks a frame of a clip whose frames are JPEGs, whatever size it says it has.

    Raises:
        ImageError: it has too many scans for the largest picture.
    """
    if data.count(bytes([0xFF, _START_OF_SCAN])) > LARGEST_SCANS:
        raise ImageError(f"a frame of {name} has more than {LARGEST_SCANS} scans")


def _has_more_scans(data: bytes, most: int) -> bool:
    place = scans = 0
    while scans <= most:
        found = _MARKER.search(data, place)
        if found is None:
            return False
        place, marker = found.end(), found[1][0]
        if marker == _END_OF_IMAGE and scans:  # before the first scan, it ends tables that a picture follows
            return False
        if marker not in (_START_OF_IMAGE, _END_OF_IMAGE):
            scans += marker == _START_OF_SCAN
            place += int.from_bytes(data[place : place + 2], "big")
    return True
