"""Reads the header of a safetensors file that lies elsewhere: which tensors it holds, and where."""

import json
import math
from dataclasses import dataclass

import torch

from gesso.errors import CheckpointError
from gesso.models.byte_stream import RemoteBytes

LENGTH = 8
"""Bytes of the number that the file begins with: the bytes of the header."""
LONGEST = 100_000_000
"""Bytes that the format allows a header."""
TYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
    "F8_E4M3": torch.float8_e4m3fn,
}


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """Tells where a tensor lies in its file."""

    name: str
    kind: str
    """Its type, by the name of safetensors."""
    shape: tuple[int, ...]
    begin: int
    """Its first byte, counted from the file's."""
    end: int

    @property
    def bytes(self) -> int:
        return self.end - self.begin


@dataclass(frozen=True, slots=True)
class Header:
    """Holds the tensors of a file, in the order of their bytes, without gaps."""

    raw: bytes
    """All that stands before the first tensor."""
    tensors: tuple[StoredTensor, ...]


def read_header(file: RemoteBytes) -> Header:
    """Reads the header of a file on a server.

    Raises:
        CheckpointError: it is no safetensors file, or its tensors do not fill it.
        HubError: it cannot be fetched.
    """
    if file.size < LENGTH:
        raise CheckpointError(f"{file.name} is no safetensors file: it has {file.size} bytes")
    first = file.read(0, LENGTH)
    length = int.from_bytes(first, "little")
    if length > min(LONGEST, file.size - LENGTH):
        raise CheckpointError(f"{file.name} is no safetensors file: its header is said to have {length} bytes")
    text = file.read(LENGTH, LENGTH + length)
    try:
        entries = json.loads(text)
        entries.pop("__metadata__", None)
        tensors = [_tensor(file.name, name, entry, LENGTH + length) for name, entry in entries.items()]
    except CheckpointError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise CheckpointError(f"{file.name} is no safetensors file: its header cannot be read") from None
    tensors.sort(key=lambda tensor: (tensor.begin, tensor.end))
    ends = [LENGTH + length, *(tensor.end for tensor in tensors)]
    if [*(tensor.begin for tensor in tensors), file.size] != ends:
        raise CheckpointError(f"{file.name} is no safetensors file: its tensors do not fill it")
    return Header(first + text, tuple(tensors))


def _tensor(file: str, name: str, entry: dict[str, object], start: int) -> StoredTensor:
    kind, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not (isinstance(kind, str) and isinstance(shape, list) and isinstance(offsets, list)):
        raise TypeError
    if any(type(offset) is not int for offset in offsets):
        raise TypeError
    begin, end = offsets
    if kind not in TYPES:
        raise CheckpointError(f"{name} in {file} is {kind}, which is not known")
    if (
        any(type(size) is not int or size < 0 for size in shape)
        or math.prod(shape) * TYPES[kind].itemsize != end - begin
    ):
        raise CheckpointError(f"{name} in {file} has shape {shape}, which its {end - begin} bytes do not hold")
    return StoredTensor(name, kind, tuple(shape), start + begin, start + end)
