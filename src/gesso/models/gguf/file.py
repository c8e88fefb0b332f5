"""Opens a GGUF file as if it were a safetensors file: the same few methods, Hugging Face's names, plain numbers.

The `gguf` package reads the header and turns packed numbers back. Nothing of a tensor is read before it is asked for,
and a large one a piece at a time. What was packed comes as bfloat16, all else in its own type.
"""

import functools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gesso.errors import CheckpointError
from gesso.models.gguf.names import ROPE_FACTORS, hf_name

if TYPE_CHECKING:
    from gguf import GGUFReader, ReaderTensor

PIECE = 1 << 24
"""Numbers that are turned back at a time: 64 MiB of fp32, and as much again on the way."""
_PLAIN = {"F32": ("F32", torch.float32), "F16": ("F16", torch.float16)}
"""Types that need no turning back: safetensors' name, and PyTorch's type."""
_TURNED = ("BF16", torch.bfloat16)


def read_header(path: Path) -> "GGUFReader":
    """Reads the header of a GGUF file: its metadata, and where its tensors lie.

    Raises:
        CheckpointError: it is none, is truncated or one of several parts, or the `gguf` package is not installed.
    """
    stat = path.stat()
    return _read_header(path, stat.st_size, stat.st_mtime_ns)


@functools.lru_cache(maxsize=2)
def _read_header(path: Path, _size: int, _changed: int) -> "GGUFReader":
    try:
        from gguf import GGUFReader
    except ModuleNotFoundError:
        raise CheckpointError(f"{path.name}: reading GGUF needs another package: pip install 'gesso[gguf]'") from None
    try:
        reader = GGUFReader(path)
    except (ValueError, IndexError, KeyError, OSError, OverflowError, MemoryError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{path} is truncated or no GGUF file: {error}") from None
    parts = reader.get_field("split.count")
    if parts is not None and parts.contents() > 1:
        raise CheckpointError(f"{path.name} is one of {parts.contents()} parts: join them (llama-gguf-split --merge)")
    return reader


def metadata(path: Path, key: str) -> Any:
    """Returns a value of a file's metadata; None where it has none of this name.

    Raises:
        CheckpointError: the file or the value cannot be read.
    """
    field = read_header(path).get_field(key)
    try:
        return None if field is None else field.contents()
    except (ValueError, IndexError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{path.name}: {key} cannot be read: {error}") from None


def read_as(path: Path) -> str:
    """Says in which types most numbers of a file are stored, and as what they are read."""
    counts: Counter[str] = Counter()
    for tensor in read_header(path).tensors:
        counts[tensor.tensor_type.name] += int(tensor.n_elements)
    kinds = " and ".join(kind for kind, _ in counts.most_common(2))
    return f"GGUF, most of it {kinds}; read as bfloat16 where it is packed"


def rope_factors(path: Path) -> Tensor | None:
    """Returns what divides the angles of full layers, one for each pair of a head's dimensions; None where the file
    does not say."""
    stored = next((tensor for tensor in read_header(path).tensors if tensor.name == ROPE_FACTORS), None)
    return None if stored is None else GgufSlice(stored)[:]


@dataclass(frozen=True, slots=True)
class GgufSlice:
    """Is a tensor in a GGUF file, read where it is indexed along its first dimension."""

    stored: "ReaderTensor"

    def get_shape(self) -> list[int]:
        """Returns its shape, in PyTorch's order."""
        return [int(size) for size in reversed(self.stored.shape)]

    def get_dtype(self) -> str:
        """Returns safetensors' name of the type in which it is read."""
        return self._kind[0]

    @property
    def _kind(self) -> tuple[str, torch.dtype]:
        return _PLAIN.get(self.stored.tensor_type.name, _TURNED)

    def __getitem__(self, place: int | slice) -> Tensor:
        if isinstance(place, int):
            return self[place : place + 1][0]
        shape = self.get_shape()
        begin, end, step = place.indices(shape[0])
        if step != 1:
            raise ValueError(f"a tensor of a GGUF file is read without gaps, not in steps of {step}")
        made = torch.empty(max(0, end - begin), *shape[1:], dtype=self._kind[1])
        for first, last in _pieces(begin, end, made[:1].numel()):
            made[first - begin : last - begin] = self._turned_back(first, last)
        return made

    def _turned_back(self, first: int, last: int) -> Tensor:
        import numpy as np

        raw, kind = self.stored.data[first:last], self.stored.tensor_type
        if kind.name in _PLAIN:
            return torch.from_numpy(np.array(raw))
        from gguf.quants import dequantize

        with np.errstate(all="ignore"):  # what is not finite is refused where it is used, by name
            try:
                return torch.from_numpy(dequantize(np.array(raw), kind))
            except NotImplementedError:
                raise CheckpointError(
                    f"{self.stored.name} is {kind.name}, which the gguf package cannot read"
                ) from None


def _pieces(begin: int, end: int, row: int) -> Iterator[tuple[int, int]]:
    """Yields ranges of rows, each with no more than `PIECE` numbers where one row has no more already."""
    count = max(1, PIECE // max(1, row))
    for first in range(begin, end, count):
        yield first, min(first + count, end)


class GgufFile:
    """Is an open GGUF file, with the methods of an open safetensors file."""

    def __init__(self, path: Path, device: str = "cpu") -> None:
        """
        Raises:
            CheckpointError: see `read_header`.
        """
        self._device = device
        self._tensors = {hf_name(t.name): t for t in read_header(path).tensors if t.name != ROPE_FACTORS}

    def __enter__(self) -> "GgufFile":
        return self

    def __exit__(self, *_: object) -> None: ...

    def keys(self) -> list[str]:
        """Returns Hugging Face's names of the tensors; those that are not known under their own."""
        return list(self._tensors)

    def get_slice(self, name: str) -> GgufSlice:
        """Returns a tensor of which nothing is read yet.

        Raises:
            KeyError: there is none of this name.
        """
        return GgufSlice(self._tensors[name])

    def get_tensor(self, name: str) -> Tensor:
        """Reads a tensor.

        Raises:
            KeyError: there is none of this name.
        """
        return self.get_slice(name)[:].to(self._device)
