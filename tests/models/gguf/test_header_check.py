"""Headers of GGUF files that announce more than there is, or than is read, are refused before anything is made of
them."""

from pathlib import Path
from struct import pack

import pytest

from gesso.errors import CheckpointError
from gesso.models.gguf import header_check
from gesso.models.gguf.file import GgufFile

U8, STRING, ARRAY = 0, 8, 9


def header(*, tensors: int = 0, keys: int = 1, order: str = "<") -> bytes:
    return b"GGUF" + pack(f"{order}IQQ", 3, tensors, keys)


def text(content: str, order: str = "<") -> bytes:
    return pack(f"{order}Q", len(content)) + content.encode()


def array(kind: int, count: int, order: str = "<") -> bytes:
    return pack(f"{order}IIQ", ARRAY, kind, count)


HUGE = 2**50
KEY = header() + text("x")
CASES = {
    "numbers": (KEY + array(U8, HUGE), "'x' is said to have 1,125,899,906,842,624 values, and 0 bytes are left"),
    "texts": (KEY + array(STRING, 3) + text("a"), "'x' is said to have 3 values, and 9 bytes are left"),
    "a text": (KEY + pack("<IQ", STRING, HUGE), "'x' ends behind its last byte"),
    "a text in an array": (KEY + array(STRING, 1) + pack("<Q", HUGE), "'x' ends behind its last byte"),
    "a name": (header() + pack("<Q", HUGE) + b"12345", "a key ends behind its last byte"),
    "keys": (
        header(keys=HUGE) + text("x") + b"123456",
        "is said to have 1,125,899,906,842,624 keys, and 15 bytes",
    ),
    "tensors": (header(tensors=HUGE, keys=0), "the file is said to have 1,125,899,906,842,624 tensors, and 0 bytes"),
    "dimensions": (header(tensors=1, keys=0) + text("t") + pack("<I", 2**31) + bytes(99), "'t' has 2147483648 dim"),
    "nesting": (KEY + pack("<I", ARRAY) + pack("<IQ", ARRAY, 1) * 3000, "'x' holds arrays in one another"),
    "a type": (KEY + pack("<I", 99) + bytes(8), "'x' is of type 99, which is not known"),
    "no end": (header() + text("xxxxxx") + b"\0", "its header ends behind its last byte"),
    "other byte order": (header(order=">") + text("x", ">") + array(U8, HUGE, ">"), "'x' is said to have 1,125,"),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_announced_and_not_there_is_refused(tmp_path: Path, case: str) -> None:
    content, said = CASES[case]
    path = tmp_path / "a.gguf"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"a\.gguf is truncated or no GGUF file") as refused:
        GgufFile(path)
    assert said in str(refused.value)


def test_more_values_than_any_vocabulary_has_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(header_check, "MAX_VALUES", 1000)
    path = tmp_path / "a.gguf"
    path.write_bytes(header(keys=2) + text("x") + array(U8, 600) + bytes(600) + text("y") + array(U8, 600) + bytes(600))
    with pytest.raises(CheckpointError, match="its arrays hold more than 1,000 values"):
        GgufFile(path)


def test_whole_headers_pass(whole: Path, tmp_path: Path) -> None:
    header_check.check_header(whole)
    path = tmp_path / "swapped.gguf"
    path.write_bytes(header(order=">") + text("x", ">") + array(U8, 2, ">") + b"12" + bytes(64))
    with pytest.raises(CheckpointError, match=r"swapped\.gguf was written for machines of the other byte order"):
        GgufFile(path)
