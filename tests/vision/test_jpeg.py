"""JPEGs of many scans: as many as encoders write are read, and no more than that keep a decoder busy."""

import io
import struct
from fractions import Fraction
from typing import Any

import pytest

from gesso.errors import ImageError
from gesso.vision.decode import decode
from gesso.vision.jpeg import LARGEST_SCANS, MOST_SCANS
from gesso.vision.limits import ImageLimits
from gesso.vision.video import prepare_video
from vision.pictures import encoded, photo

END = b"\xff\xd9"
SIDE = 64
BLOCKS = (SIDE // 8) ** 2
LIMITS = ImageLimits(max_pixels=SIDE**2)


def segment(marker: int, data: bytes) -> bytes:
    return bytes([0xFF, marker]) + struct.pack(">H", len(data) + 2) + data


def empty_scans(number: int) -> bytes:
    """A grey picture whose scans change nothing: each is one run over all of its blocks."""
    tables = segment(0xDB, b"\0" + b"\1" * 64)
    frame = segment(0xC2, struct.pack(">BHHB", 8, SIDE, SIDE, 1) + b"\1\x11\0")
    codes = segment(0xC4, b"\0" + b"\1" + bytes(15) + b"\0") + segment(0xC4, b"\x10" + b"\1" + bytes(15) + b"\x60")
    run = (BLOCKS - 64) << 1 | 1  # the code 0 of a run of 64 to 127 blocks, six bits, and ones that fill the byte
    scan = segment(0xDA, b"\1\1\0\1\x3f\0") + bytes([run])
    return b"\xff\xd8" + tables + frame + codes + scan * number + END


def test_as_many_scans_as_the_size_allows_are_read() -> None:
    assert decode(empty_scans(LARGEST_SCANS), limits=LIMITS).size == (SIDE, SIDE)
    assert decode(empty_scans(MOST_SCANS)).size == (SIDE, SIDE)


@pytest.mark.parametrize("before", [b"", b"\xff\xd8" + END, b"\xff\xd8" + segment(0xFE, END)])
def test_more_are_refused_by_name(before: bytes) -> None:
    """Also behind tables without a picture, and where a comment looks like the end."""
    with pytest.raises(ImageError, match=f"a.jpg has more than {LARGEST_SCANS} scans, .* for 4,096 pixels"):
        decode(before + empty_scans(LARGEST_SCANS + 1)[2 * (len(before) > 4) :], "a.jpg", LIMITS)
    with pytest.raises(ImageError, match=f"has more than {MOST_SCANS} scans"):
        decode(empty_scans(MOST_SCANS + 1))


@pytest.mark.parametrize("mode", ["L", "RGB", "CMYK"])
def test_what_encoders_write_is_read_at_the_largest_size(mode: str) -> None:
    data = encoded(photo(SIDE, SIDE).convert(mode), "JPEG", progressive=True)
    assert decode(data, limits=LIMITS).size == (SIDE, SIDE)


def test_scans_of_a_preview_and_behind_the_picture_are_not_counted() -> None:
    data = encoded(photo(SIDE, SIDE), "JPEG", progressive=True, comment=b"\xff\xda" * 40)
    assert decode(data + b"\xff\xda" * 40, limits=LIMITS).size == (SIDE, SIDE)


def test_frames_of_a_clip_are_bounded_too() -> None:
    import av

    out = io.BytesIO()
    clip: Any = av.open(out, "w", format="avi")
    with clip:
        stream = clip.add_stream("mjpeg", rate=2)
        stream.width = stream.height = SIDE
        stream.pix_fmt = "yuvj420p"
        clip.start_encoding()
        for number in range(2):
            packet = av.Packet(empty_scans(LARGEST_SCANS + 1))
            packet.stream, packet.pts, packet.dts, packet.time_base = stream, number, number, Fraction(1, 2)
            clip.mux(packet)
    with pytest.raises(ImageError, match=f"a frame of the video has more than {LARGEST_SCANS} scans"):
        prepare_video(out.getvalue())
