"""Pixels, positions and counts exactly as the reference's processor makes them."""

import io
import os
import re
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageOps

from gesso.errors import ImageError, OptionError
from gesso.extras import pip_install
from gesso.vision.limits import ImageLimits
from gesso.vision.preprocess import ImageSource, PreparedImage, load_image, prepare_image
from gesso.vision.size import BUDGETS, PatchLayout, soft_tokens
from vision.pictures import encoded, numbers, photo, reference

SIZES = [(1, 1), (47, 49), (48, 48), (33, 777), (3, 900), (900, 3), (640, 480), (768, 768), (960, 672), (1920, 1080)]


def check(found: PreparedImage, image: Any, budget: int) -> None:
    """A prepared picture is bit by bit what the reference makes of `image`."""
    pixels, positions, count = reference(image, budget)
    assert np.array_equal(found.pixel_values(), pixels)
    assert found.pixel_values().dtype == np.float32
    rows, columns = np.divmod(np.arange(found.rows * found.columns), found.columns)
    assert np.array_equal(np.stack((columns, rows), axis=-1), positions)
    assert found.soft_tokens == count


@pytest.mark.parametrize("size", SIZES)
def test_sizes(size: tuple[int, int]) -> None:
    image = photo(*size)
    found = prepare_image(image)
    check(found, image, 280)
    assert found.soft_tokens == soft_tokens(*size)


@pytest.mark.parametrize("size", [(10000, 10), (10, 10000), (4000, 3000)])
def test_extreme_sizes(size: tuple[int, int]) -> None:
    image = photo(size[0] // 10, size[1] // 10).resize(size)
    check(prepare_image(image), image, 280)


@pytest.mark.parametrize("budget", BUDGETS)
def test_budgets(budget: int) -> None:
    image = photo(321, 200)
    check(prepare_image(image, budget), image, budget)


def with_alpha(mode: str) -> Image.Image:
    image = photo(60, 40).convert(mode)
    alpha = numbers(40, 60, seed=3)
    alpha[:10], alpha[10:20] = 0, 128
    image.putalpha(Image.fromarray(alpha))
    return image


def palette(transparency: object = None) -> Image.Image:
    image = photo(60, 40).quantize(16)
    if transparency is not None:
        image.info["transparency"] = transparency
    return image


def float_mode() -> Image.Image:
    return Image.fromarray((numbers(40, 60).astype(np.float32) * 1.2 - 20).astype(np.float32))


MODES: dict[str, Image.Image] = {
    "L": photo(60, 40).convert("L"),
    "1": photo(60, 40).convert("1"),
    "LA": with_alpha("L"),
    "RGBA": with_alpha("RGB"),
    "PA": with_alpha("RGB").convert("LA").convert("PA"),
    "P": palette(),
    "P and a transparent colour": palette(3),
    "P and an alpha for every colour": palette(bytes(range(0, 240, 15))),
    "CMYK": photo(60, 40).convert("CMYK"),
    "YCbCr": photo(60, 40).convert("YCbCr"),
    "HSV": photo(60, 40).convert("HSV"),
    "F": float_mode(),
}


@pytest.mark.parametrize("mode", MODES)
def test_modes_of_pillow_images(mode: str) -> None:
    image = MODES[mode]
    check(prepare_image(image), image, 280)


@pytest.mark.parametrize("mode", ["L", "P", "RGB"])
def test_no_transparent_colour_is_none(mode: str) -> None:
    image = Image.new(mode, (2, 1))
    image.info["transparency"] = None
    assert not np.asarray(load_image(image)).any()
    assert image.info == {"transparency": None}


def test_lab_is_no_alpha() -> None:
    image = Image.merge("LAB", photo(60, 40).split())
    check(prepare_image(image), image.convert("RGB"), 280)


def test_what_a_palette_calls_transparent_shows_white() -> None:
    image = Image.new("P", (3, 1))
    image.putpalette([255, 0, 0, 0, 0, 255, 0, 255, 0, 0, 255, 51], "RGBA")
    image.putdata([0, 1, 2])
    assert np.asarray(load_image(image)).tolist() == [[[255, 255, 255], [0, 255, 0], [204, 204, 255]]]


def png(bits: int, kind: int, row: bytes, transparent: bytes, width: int) -> bytes:
    """A PNG of one row, with a colour that is transparent."""

    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    header = struct.pack(">IIBBBBB", width, 1, bits, kind, 0, 0, 0)
    body = chunk(b"tRNS", transparent) + chunk(b"IDAT", zlib.compress(b"\0" + row)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + body


@pytest.mark.parametrize(
    ("bits", "kind", "row", "transparent", "expected"),
    [
        (1, 0, b"\x40", b"\0\0", [255, 255]),
        (2, 0, b"\x1b", b"\0\1", [0, 255, 170, 255]),
        (4, 0, b"\x0d", b"\0\x0d", [0, 255]),
        (8, 0, b"\x05\x0d", b"\0\x05", [255, 13]),
        (16, 0, b"\x05\x01\x05\x02", b"\x05\x01", [255, 5]),
        (16, 2, b"\x05\x01\x06\x01\x07\x01" + b"\x08\1" * 3, b"\x05\x01\x06\x01\x07\x01", [255, 8]),
    ],
)
def test_a_transparent_colour_of_a_png_of_any_bits_shows_white(
    bits: int, kind: int, row: bytes, transparent: bytes, expected: list[int]
) -> None:
    image = load_image(png(bits, kind, row, transparent, len(expected)))
    assert np.asarray(image)[0].tolist() == [[level] * 3 for level in expected]


def test_a_transparent_colour_of_rgb_and_grey_shows_white() -> None:
    for mode, colour in (("RGB", (10, 20, 30)), ("L", 17)):
        image = photo(60, 40).convert(mode)
        image.paste(colour, (0, 0, 30, 20))
        image = Image.open(io.BytesIO(encoded(image, "PNG", transparency=colour)))
        assert "transparency" in image.info
        check(prepare_image(image), image, 280)
        assert prepare_image(image).patches[0].min() > 200


ALL = ("RGB", "L", "RGBA", "P")


@pytest.mark.parametrize(
    ("kind", "options", "modes"),
    [
        ("PNG", {}, ALL),
        ("JPEG", {"quality": 80}, ("RGB", "L")),
        ("WEBP", {"quality": 80}, ALL),
        ("WEBP", {"lossless": True}, ALL),
        ("BMP", {}, ALL),
        ("GIF", {}, ALL),
        ("TIFF", {"compression": "tiff_lzw"}, ALL),
        ("PPM", {}, ("RGB", "L", "RGBA")),
        ("AVIF", {"quality": 80}, ALL),
    ],
)
def test_files_of_every_format(kind: str, options: dict[str, Any], modes: tuple[str, ...], tmp_path: Path) -> None:
    for mode in modes:
        _check_file(kind, options, mode, tmp_path)


def _check_file(kind: str, options: dict[str, Any], mode: str, tmp_path: Path) -> None:
    image = {"RGB": photo(60, 40), "L": MODES["L"], "RGBA": MODES["RGBA"], "P": palette(3)}[mode]
    data = encoded(image, kind, **options)
    path = tmp_path / "picture"
    path.write_bytes(data)
    found = prepare_image(data)
    check(found, Image.open(io.BytesIO(data)), 280)
    assert prepare_image(path).digest == prepare_image(str(path)).digest == found.digest


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
def test_files_are_turned_as_exif_says_and_pillow_images_are_not(orientation: int, kind: str) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encoded(photo(120, 40), kind, exif=exif)
    upright = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    assert upright is not None
    check(prepare_image(data), upright, 280)
    assert (prepare_image(data).columns < prepare_image(data).rows) == (orientation >= 5)
    opened = Image.open(io.BytesIO(data))
    check(prepare_image(opened), Image.open(io.BytesIO(data)), 280)


def test_cmyk_and_sixteen_bits_from_files() -> None:
    data = encoded(photo(60, 40).convert("CMYK"), "JPEG")
    check(prepare_image(data), Image.open(io.BytesIO(data)), 280)
    deep = (numbers(40, 60).astype(np.uint16) << 8) + 77
    eight = Image.fromarray((deep >> 8).astype(np.uint8))
    for kind in ("PNG", "TIFF"):
        data = encoded(Image.fromarray(deep), kind)
        assert Image.open(io.BytesIO(data)).mode.startswith("I")
        check(prepare_image(data), eight, 280)
    pgm = b"P5 60 40 65535 " + deep.astype(">u2").tobytes()
    check(prepare_image(pgm), eight, 280)


def test_the_first_frame_of_an_animation() -> None:
    frames = [photo(60, 40, seed) for seed in range(3)]
    for kind, options in (("GIF", {}), ("WEBP", {"lossless": True}), ("PNG", {})):
        data = encoded(frames[0], kind, save_all=True, append_images=frames[1:], duration=100, **options)
        opened = Image.open(io.BytesIO(data))
        assert getattr(opened, "n_frames", 1) == 3
        check(prepare_image(data), opened, 280)
        assert prepare_image(data).digest == prepare_image(encoded(opened.convert("RGB"), "PNG")).digest


@pytest.mark.parametrize(
    ("array", "image"),
    [
        (numbers(40, 60, 3), numbers(40, 60, 3)),
        (numbers(40, 60, 4), numbers(40, 60, 4)),
        (numbers(40, 60, 1), numbers(40, 60, 1)),
        (numbers(40, 60), numbers(40, 60, 1)[..., 0]),
        (numbers(40, 60, 3).astype(np.uint16) * 257, numbers(40, 60, 3)),
        (numbers(40, 60, 3) / 255, numbers(40, 60, 3)),
        ((numbers(40, 60, 3) / 255).astype(np.float32), numbers(40, 60, 3)),
    ],
)
def test_arrays(array: NDArray[Any], image: NDArray[np.uint8]) -> None:
    # The reference takes no [H, W]: a picture of the same numbers stands in.
    check(prepare_image(array), image if image.ndim == 3 else Image.fromarray(numbers(40, 60)), 280)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (np.zeros((3, 40, 60), np.uint8), r"shape \[3, 40, 60\]: give \[height, width\]"),
        (np.zeros((2, 40, 60, 3), np.uint8), "shape"),
        (np.zeros((40, 60, 2), np.uint8), "shape"),
        (np.zeros((0, 60, 3), np.uint8), "no pixels"),
        (np.zeros(5, np.uint8), "shape"),
        (np.zeros((40, 60, 3), np.int64), "holds int64"),
        (np.zeros((40, 60, 3), bool), "holds bool"),
        (np.full((40, 60, 3), 2.0), r"floats outside of \[0, 1\]"),
        (np.full((40, 60, 3), np.nan), r"floats outside of \[0, 1\]"),
        (Image.fromarray(np.full((4, 4), 70_000, np.int32)), "from 70000 to 70000"),
        (Image.fromarray(np.full((4, 4), np.nan, np.float32)), "not finite"),
        (Image.fromarray(np.linspace(0, 1, 12, dtype=np.float32).reshape(3, 4)), "floats up to 1, and Pillow's mode F"),
        (palette("nonsense"), "cannot be converted from P to RGB"),
        (Image.new("RGB", (0, 4)), "no pixels"),
        (None, "not NoneType"),
        ([1, 2], "not list"),
    ],
)
def test_what_is_no_picture_is_refused_by_name(source: Any, message: str) -> None:
    with pytest.raises(ImageError, match=message):
        prepare_image(source)


def test_pixels_are_counted_before_anything_is_done_with_them() -> None:
    limits = ImageLimits(max_pixels=1000)
    sources: list[ImageSource] = [np.zeros((40, 60, 3), np.uint8), photo(60, 40), encoded(photo(60, 40), "PNG")]
    for source in sources:
        with pytest.raises(ImageError, match="60 x 40 pixels; at most 1,000"):
            prepare_image(source, limits=limits)
    assert prepare_image(photo(25, 40), limits=limits).soft_tokens


def test_equal_digests_mean_equal_pixels_of_equal_size() -> None:
    image = photo(60, 40)
    one = prepare_image(image)
    assert one.digest == prepare_image(image.copy()).digest == prepare_image(encoded(image, "PNG")).digest
    others = [
        prepare_image(photo(60, 40, seed=1)),
        prepare_image(image, 140),
        prepare_image(image, layout=PatchLayout(8, 3)),
        prepare_image(image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)),
    ]
    changed = np.asarray(image).copy()
    changed[0, 0, 0] ^= 8
    others.append(prepare_image(changed))
    assert len({one.digest, *(other.digest for other in others)}) == 6
    black, tall = Image.new("RGB", (96, 192)), Image.new("RGB", (192, 96))
    assert prepare_image(black).digest != prepare_image(tall).digest
    assert len(one.digest) == 64
    assert not one.patches.flags.writeable


def test_a_broken_picture_and_a_budget_that_there_is_not() -> None:
    good = encoded(photo(60, 40), "PNG")
    assert prepare_image(good, 70).soft_tokens == soft_tokens(60, 40, 70)
    with pytest.raises(ImageError, match=r"^the image is truncated"):
        prepare_image(good[:200])
    with pytest.raises(OptionError, match="soft tokens"):
        prepare_image(good, 71)


def test_importing_it_imports_neither_pillow_nor_torch() -> None:
    code = "import gesso.vision.video, sys; print(sorted({'torch', 'PIL', 'av'} & set(sys.modules)))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    out = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert out.stdout == "[]\n"


def test_without_pillow_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from gesso.vision.pillow import require_pillow

    require_pillow.cache_clear()
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(OptionError, match=re.escape(pip_install("vision"))):
        prepare_image(b"x")
    require_pillow.cache_clear()
