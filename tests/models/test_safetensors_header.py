"""Headers of safetensors files that lie elsewhere: what they hold, and what is refused."""

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from safetensors.torch import save

from gesso.errors import CheckpointError
from gesso.models.safetensors_header import StoredTensor, read_header


@dataclass
class Held:
    """A file on a server, but in memory."""

    content: bytes
    name: str = "model.safetensors"

    @property
    def size(self) -> int:
        return len(self.content)

    def read(self, begin: int, end: int) -> bytes:
        return self.content[begin:end]


CONTENT = save(
    {"b": torch.arange(6.0).view(2, 3), "a": torch.ones(4, dtype=torch.bfloat16), "none": torch.empty(0, 3)},
    metadata={"format": "pt"},
)
LENGTH = 8 + int.from_bytes(CONTENT[:8], "little")


def header(content: bytes) -> Any:
    return read_header(Held(content))  # type: ignore[arg-type]


def with_offsets(begin: str) -> bytes:
    """A file of one tensor, of which the header says so where it begins."""
    text = f'{{"a": {{"dtype": "U8", "shape": [0], "data_offsets": [{begin}, 0]}}}}'.encode()
    return len(text).to_bytes(8, "little") + text


def test_tensors_are_where_it_says() -> None:
    found = header(CONTENT)
    assert found.raw == CONTENT[:LENGTH]
    assert {tensor.name: (tensor.kind, tensor.shape) for tensor in found.tensors} == {
        "a": ("BF16", (4,)),
        "b": ("F32", (2, 3)),
        "none": ("F32", (0, 3)),
    }
    table: StoredTensor = next(tensor for tensor in found.tensors if tensor.name == "b")
    assert torch.frombuffer(bytearray(CONTENT[table.begin : table.end]), dtype=torch.float32).tolist() == [*range(6)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"1234", "it has 4 bytes"),
        ((10**8).to_bytes(8, "little") + CONTENT[8:], "its header is said to have 100000000 bytes"),
        (CONTENT[:8] + b"x" + CONTENT[9:], "its header cannot be read"),
        ((2).to_bytes(8, "little") + b"[]", "its header cannot be read"),
        (CONTENT + b"12", "its tensors do not fill it"),
        (CONTENT[:-4], "its tensors do not fill it"),
        (CONTENT.replace(b'"BF16"', b'"BF99"'), "a in model.safetensors is BF99, which is not known"),
        (CONTENT.replace(b"[2,3]", b"[2,4]"), "which its 24 bytes do not hold"),
        (CONTENT.replace(b"[2,3]", b'"2,3'), "its header cannot be read"),
        *((with_offsets(begin), "its header cannot be read") for begin in ("1e999", "0.0", '"0"', "true", "[]")),
    ],
)
def test_what_is_none_is_refused(content: bytes, message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        header(content)
