"""Files nobody made on purpose: whatever is in them, an answer or an `ImageError` comes, soon and in little memory.

The bad files are read in a process of its own with a bounded address space, so that a crash of a decoder, a hang and
memory that a header asked for all fail the test. `GESSO_THOROUGH=1` makes it ten thousand files.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from thorough import cases

from gesso.errors import ImageError
from gesso.vision.decode import open_image
from gesso.vision.limits import ImageLimits
from gesso.vision.preprocess import prepare_image
from gesso.vision.webp import webp_size
from vision.bad_files import GOOD

FILES = cases(300, 10_000)
SIGNATURES = (
    *(b"", b"RIFF\0\0\0\0WEBPVP8X", b"RIFF\0\0\0\0WEBPVP8L", b"GIF89a", b"\x89PNG\r\n\x1a\n"),
    *(b"BM", b"II*\0", b"P5 ", b"\xff\xd8\xff"),
)
LIMITS = ImageLimits(max_pixels=10**6)

pytestmark = pytest.mark.filterwarnings("ignore")  # decoders warn of what they get over


def try_image(data: bytes) -> None:
    """Either it is a picture within limits, or it is refused by name."""
    said, found = "", None
    try:
        found = prepare_image(data, 70, limits=LIMITS)
    except ImageError as error:
        said = str(error)
    if found is None:
        assert said.startswith("the image")
        assert "\n" not in said
    else:
        assert 1 <= found.soft_tokens <= 70
        assert found.patches.shape == (9 * found.soft_tokens, 768)


@settings(max_examples=cases(200, 2000))
@given(st.sampled_from(sorted(GOOD)), st.data())
def test_headers(name: str, data: st.DataObject) -> None:
    """Bytes of the first hundred are set at will, where sizes, types and lengths stand."""
    file = bytearray(GOOD[name])
    for _ in range(data.draw(st.integers(1, 6))):
        file[data.draw(st.integers(0, min(100, len(file) - 1)))] = data.draw(st.integers(0, 255))
    try_image(bytes(file))


@settings(max_examples=cases(200, 2000))
@given(st.sampled_from(SIGNATURES), st.binary(max_size=200))
def test_anything_behind_a_signature(signature: bytes, rest: bytes) -> None:
    try_image(signature + rest)


@given(st.binary(min_size=18, max_size=40), st.sampled_from([b"VP8X", b"VP8L", b"VP8 "]))
def test_the_size_of_any_webp_header_is_a_size(rest: bytes, kind: bytes) -> None:
    size = webp_size(b"RIFF\0\0\0\0WEBP" + kind + rest)
    assert size is not None
    assert all(0 <= side <= 1 << 24 for side in size)


@given(st.integers(1, 400), st.integers(1, 400), st.sampled_from(["VP8", "VP8L"]))
@settings(max_examples=50)
def test_the_size_of_a_webp_header_is_pillow_s(width: int, height: int, kind: str) -> None:
    import io

    out = io.BytesIO()
    Image.new("RGB", (width, height)).save(out, "WEBP", lossless=kind == "VP8L")
    assert webp_size(out.getvalue()) == open_image(out.getvalue()).size == (width, height)


def test_bad_files_neither_crash_nor_hang_nor_take_memory() -> None:
    program = Path(__file__).parent / "bad_files.py"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])}
    out = subprocess.run(
        [sys.executable, "-W", "ignore", str(program), str(FILES)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60 + FILES,
        check=False,
    )
    assert out.returncode == 0, out.stderr[-2000:]
    words = out.stdout.split()
    files, refused, megabytes, slowest = int(words[0]), int(words[1]), float(words[2]), float(words[3])
    assert files == FILES
    assert refused > FILES // 2  # the files are bad enough to say something
    assert megabytes < 300
    assert slowest < 10
