"""Files that are too large, cut off, damaged or something else: refused by name, before their pixels are decoded."""

import base64
import io
import os
import re
import struct
import threading
import zlib
from pathlib import Path

import pytest
from PIL import Image

from gesso.errors import ImageError, OptionError
from gesso.vision import decode as decode_module
from gesso.vision.decode import FORMATS, decode, open_image
from gesso.vision.limits import ImageLimits, VideoLimits
from gesso.vision.preprocess import prepare_image
from gesso.vision.source import read_bytes
from gesso.vision.webp import webp_size
from vision.pictures import encoded, photo

GOOD = encoded(photo(60, 40), "PNG")


def png(width: int, height: int, pixels: bytes) -> bytes:
    """A grey PNG whose header may lie."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def gif(width: int, height: int) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height) + b"\x80\0\0" + bytes(6) + b"," + bytes(4) + struct.pack(
        "<HH", width, height
    ) + b"\0\2\2D\1\0;"  # fmt: skip


def bmp(width: int, height: int) -> bytes:
    return b"BM" + struct.pack("<IHHIIiiHHIIiiII", 54, 0, 0, 54, 40, width, height, 1, 24, 0, 0, 0, 0, 0, 0)


def webp(width: int, height: int) -> bytes:
    size = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    return b"RIFF" + struct.pack("<I", 40) + b"WEBPVP8X" + struct.pack("<I", 10) + b"\2\0\0\0" + size + bytes(16)


BOMBS = {
    "png of 40 gigapixels": png(200_000, 200_000, zlib.compress(bytes(1000))),
    "png of 80 megapixels": png(8_000, 10_000, zlib.compress(bytes(1000))),
    "gif": gif(65_535, 65_535),
    "bmp": bmp(100_000, 100_000),
    "webp": webp(16_383, 16_383),
    "ppm": b"P6 100000 100000 255 ",
}


@pytest.mark.parametrize("name", BOMBS)
@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_bombs_are_refused_by_their_header(name: str) -> None:
    with pytest.raises(ImageError, match=r"pixels"):
        prepare_image(BOMBS[name])


def test_a_bomb_that_pillow_only_warns_of_is_refused_as_well() -> None:
    with pytest.raises(ImageError, match="too many pixels: at most 64,000,000 in all are decoded"):
        prepare_image(png(10_000, 10_000, b""))


def test_a_tiff_of_one_point_in_a_giant_tile_is_refused() -> None:
    entries = (
        (256, 1),
        (257, 1),
        (258, 8),
        (259, 8),
        (262, 1),
        (277, 1),
        (322, 30000),
        (323, 30000),
        (324, 8),
        (325, 1),
    )
    fields = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in entries)
    tiff = struct.pack("<2sHIH", b"II", 42, 8, len(entries)) + fields + bytes(4)
    with pytest.raises(ImageError, match="a tile of it is 30000 x 30000"):
        open_image(tiff, "it")
    tiled = tiff.replace(struct.pack("<I", 30000), struct.pack("<I", 16))
    assert open_image(tiled, "it").size == (1, 1)


def test_a_tiff_of_very_many_strips_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them takes two bytes of the file, and a decoder of its own."""
    monkeypatch.setattr(decode_module, "MOST_TILES", 100)
    count = 101
    place = 8 + 2 + 8 * 12 + 4
    entries = (
        (256, 4, 1, 1),
        (257, 4, 1, count),
        (258, 3, 1, 8),
        (259, 3, 1, 1),
        (262, 3, 1, 1),
        (273, 3, count, place),
        (277, 3, 1, 1),
        (278, 4, 1, 1),
    )
    fields = b"".join(struct.pack("<HHII", *entry) for entry in entries)
    tiff = struct.pack("<2sHIH", b"II", 42, 8, len(entries)) + fields + bytes(4) + struct.pack("<H", 1) * count
    with pytest.raises(ImageError, match=r"it has 101 tiles or strips; at most 100 are decoded"):
        decode(tiff, "it")


def test_a_webp_is_refused_before_its_decoder_takes_memory() -> None:
    for options in ({"lossless": True}, {"quality": 50}):
        assert webp_size(encoded(photo(61, 43), "WEBP", **options)) == (61, 43)
    frames = [photo(61, 43), photo(61, 43, 1)]
    assert webp_size(encoded(frames[0], "WEBP", save_all=True, append_images=frames[1:])) == (61, 43)
    assert webp_size(webp(16_383, 5)) == (16_383, 5)
    assert webp_size(GOOD) is None
    assert webp_size(webp(5, 5)[:20]) is None
    assert webp_size(webp(5, 5).replace(b"VP8X", b"EXIF")) is None


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM"])
@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_truncated_files_are_refused(kind: str, share: float) -> None:
    data = encoded(photo(60, 40), kind)
    with pytest.raises(ImageError, match=r"the image is (truncated|damaged|no image)"):
        prepare_image(data[: int(len(data) * share)])
    assert prepare_image(data).soft_tokens


def test_a_truncated_jpeg_is_called_so() -> None:
    data = encoded(photo(600, 400), "JPEG")
    with pytest.raises(ImageError, match="is truncated"):
        prepare_image(data[: len(data) // 2])


@pytest.mark.parametrize(
    "data",
    [b"", b"hello world, this is no image at all", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", b"\0" * 999],
)
def test_what_is_no_picture_is_refused(data: bytes) -> None:
    with pytest.raises(ImageError, match=r"empty|no image of a format that is read: PNG, JPEG"):
        prepare_image(data)


def test_formats_that_run_programs_or_are_rare_are_not_opened() -> None:
    assert not {"EPS", "WMF", "PSD", "PDF"} & set(FORMATS)
    for kind in ("EPS", "ICO", "TGA", "PCX"):
        with pytest.raises(ImageError, match="no image of a format that is read"):
            open_image(encoded(photo(60, 40), kind))


def test_a_header_is_read_without_the_pixels() -> None:
    opened = open_image(png(3_000, 2_000, b"nothing of the kind"))
    assert opened.size == (3_000, 2_000)
    with pytest.raises(ImageError, match=r"damaged|truncated"):
        decode(png(3_000, 2_000, b"nothing of the kind"))


@pytest.mark.filterwarnings("ignore:Corrupt EXIF")
def test_damaged_exif_turns_nothing() -> None:
    data = encoded(photo(60, 40), "JPEG", exif=b"Exif\0\0II*\0\x08\0\0\0\xff\xff\x12\x01")
    assert decode(data).size == (60, 40)


def test_bytes_are_counted_before_a_file_is_read(tmp_path: Path) -> None:
    limits = ImageLimits(max_bytes=1000)
    path = tmp_path / "large.png"
    path.write_bytes(GOOD)
    url = "data:image/png;base64," + base64.b64encode(GOOD).decode()
    assert len(GOOD) > 1100
    for source in (path, str(path), GOOD, url):
        with pytest.raises(ImageError, match=r"bytes or more; at most 1,000 are read"):
            prepare_image(source, limits=limits)
    with pytest.raises(OptionError, match="must be positive"):
        ImageLimits(max_bytes=0)
    with pytest.raises(OptionError, match="must be positive"):
        VideoLimits(max_seconds=float("nan"))


def test_a_limit_is_exact(tmp_path: Path) -> None:
    url = "data:image/png;base64," + base64.b64encode(GOOD).decode()
    for source in (GOOD, url):
        assert read_bytes(source, ImageLimits(max_bytes=len(GOOD)))[0] == GOOD
    path = tmp_path / "exact.png"
    path.write_bytes(GOOD)
    assert prepare_image(path, limits=ImageLimits(len(GOOD), 60 * 40)).soft_tokens


@pytest.mark.parametrize("name", ["", ".", "no/such/file.png", "a\0b", "x" * 5000])
def test_paths_that_are_no_files(name: str) -> None:
    with pytest.raises(ImageError, match=rf"^{re.escape(repr(name[:200]))} (is no file|cannot be read)"):
        prepare_image(name)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    found: list[str] = []

    def read() -> None:
        try:
            prepare_image(pipe)
        except ImageError as error:
            found.append(str(error))

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    thread.join(10)
    assert found
    assert "is no file" in found[0]


@pytest.mark.parametrize("address", ["http://a.example/b.png", "https://a.example", "file:///etc/passwd", "ftp://a/b"])
def test_addresses_are_not_fetched(address: str) -> None:
    with pytest.raises(ImageError, match="nothing is fetched here"):
        prepare_image(address)


def test_data_urls() -> None:
    body = base64.b64encode(GOOD).decode()
    expected = prepare_image(GOOD).digest
    for head in (
        "data:image/png;base64,",
        "DATA:IMAGE/PNG;BASE64,",
        "Data:image/png;Base64,",
        "data:;base64,",
        "data:image/png;name=a.png;base64,",
    ):
        assert prepare_image(head + body).digest == expected
    for broken in (base64.encodebytes(GOOD).decode(), base64.encodebytes(GOOD).decode().replace("\n", "\r\n")):
        assert prepare_image("data:image/png;base64," + broken).digest == expected


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("data:image/png,abc", "must read data:TYPE;base64,DATA"),
        ("data:image/png;base64", "must read"),
        ("data:text/html;base64,aGFsbG8=", "holds 'text/html', not image"),
        ("data:video/mp4;base64,aGFsbG8=", "holds 'video/mp4', not image"),
        ("data:image/png;base64,###", "no base64"),
        ("data:image/png;base64,aGFsbG8", "no base64"),
        ("data:image/png;base64,", "is empty"),
        ("data:image/png;base64,aGFsbG8=", "no image of a format"),
    ],
)
def test_data_urls_that_hold_no_picture(url: str, message: str) -> None:
    with pytest.raises(ImageError, match=message):
        prepare_image(url)


def test_an_image_that_was_opened_and_never_read_may_still_fail() -> None:
    opened = Image.open(io.BytesIO(encoded(photo(60, 40), "PNG")[:200]))
    with pytest.raises(ImageError, match="the image cannot be read"):
        prepare_image(opened)
    with Image.open(io.BytesIO(encoded(photo(60, 40), "PNG"))) as left:
        pass
    with pytest.raises(ImageError, match="the image cannot be read: its file was closed before it was read"):
        prepare_image(left)
