"""Opens a GGUF file as if it were a safetensors file: the same few methods, Hugging Face's names, plain numbers.

The `gguf` package reads the header and turns packed numbers back. Nothing of a tensor is read before it is asked for,
and a large one a piece at a time. What was packed comes as bfloat16, all else in its own type.

The package takes half a minute for a header with a vocabulary of 262,144 tokens. Where tensors lie is therefore written
down beside the link that `gesso.models.gguf.folder` makes, and read from there.
"""

import functools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gesso.errors import CheckpointError
from gesso.extras import pip_install
from gesso.json_files import read_json
from gesso.models.gguf.header_check import check_header
from gesso.models.gguf.names import ROPE_FACTORS, hf_name

if TYPE_CHECKING:
    import numpy as np
    from gguf import GGUFReader

PIECE = 1 << 24
"""Numbers that are turned back at a time: 64 MiB of fp32, and as much again on the way."""
_PLAIN = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
"""Types that need no turning back; safetensors calls them the same."""


@dataclass(frozen=True, slots=True)
class Stored:
    """Tells where a tensor lies in its file."""

    name: str
    """The file's."""
    kind: str
    """Its type, by GGML's name."""
    shape: Sequence[int]
    """Shape in PyTorch's order."""
    begin: int
    """Its first byte, counted from the file's."""
    bytes: int


def read_header(path: Path) -> "GGUFReader":
    """Reads the header of a GGUF file: its metadata, and where its tensors lie.

    Raises:
        CheckpointError: it is none, is truncated or one of several parts, or the `gguf` package is not installed.
    """
    stat = path.stat()
    return _read_header(path, stat.st_size, stat.st_mtime_ns)


@functools.lru_cache(maxsize=1)
def _read_header(path: Path, _size: int, _changed: int) -> "GGUFReader":
    try:
        from gguf import GGUFReader
    except ModuleNotFoundError:
        raise CheckpointError(f"{path.name}: reading GGUF needs another package: {pip_install('gguf')}") from None
    try:
        check_header(path)
        reader = GGUFReader(path)
    except CheckpointError:
        raise
    except (ValueError, IndexError, KeyError, OSError, OverflowError, MemoryError):
        raise CheckpointError(f"{path} is truncated or no GGUF file") from None
    if reader.byte_order != "I":
        raise CheckpointError(f"{path.name} was written for machines of the other byte order")
    parts = metadata_of(reader, path, "split.count")
    if isinstance(parts, int) and parts > 1:
        raise CheckpointError(f"{path.name} is one of {parts} parts: join them (llama-gguf-split --merge)")
    return reader


def metadata(path: Path, key: str) -> Any:
    """Returns a value of a file's metadata; None where it has none of this name.

    Raises:
        CheckpointError: the file or the value cannot be read.
    """
    return metadata_of(read_header(path), path, key)


def metadata_of(reader: "GGUFReader", path: Path, key: str) -> Any:
    """Returns what `metadata` does, of an open file."""
    field = reader.get_field(key)
    try:
        return None if field is None else field.contents()
    except (ValueError, IndexError) as error:
        raise CheckpointError(f"{path.name}: {key} cannot be read: {error}") from None


def table_beside(path: Path) -> Path:
    """Returns where it is written down what the tensors of the file are that a link leads to."""
    return path.with_name(f"{path.name}.json")


def read_table(path: Path) -> list[Stored]:
    """Returns what the tensors of a file are.

    Raises:
        CheckpointError: see `read_header`.
    """
    written = table_beside(path)
    if path.is_symlink() and written.exists():  # beside a file itself it would be its owner's, of whatever
        return [Stored(**entry) for entry in read_json(written)["tensors"]]
    return [
        Stored(
            tensor.name,
            tensor.tensor_type.name,
            [int(size) for size in reversed(tensor.shape)],
            int(tensor.data_offset),
            int(tensor.n_bytes),
        )
        for tensor in read_header(path).tensors
    ]


def written_table(path: Path) -> dict[str, Any]:
    """Returns what stands in the file `table_beside` names."""
    return {"tensors": [asdict(stored) for stored in read_table(path)]}


def read_as(path: Path) -> str:
    """Says in which types most numbers of a file are stored, and as what they are read."""
    sizes: Counter[str] = Counter()
    for stored in read_table(path):
        sizes[stored.kind] += stored.bytes
    kinds = " and ".join(kind for kind, _ in sizes.most_common(2))
    return f"GGUF, most of it {kinds}; read as bfloat16 where it is packed"


def rope_factors(path: Path) -> Tensor | None:
    """Returns what divides the angles of full layers, one for each pair of a head's dimensions; None where the file
    does not say."""
    found = next((stored for stored in read_table(path) if stored.name == ROPE_FACTORS), None)
    return None if found is None else GgufSlice(path, found)[:]


@dataclass(frozen=True, slots=True)
class GgufSlice:
    """Reads a tensor in a GGUF file where it is indexed along its first dimension."""

    path: Path
    stored: Stored
    device: str = "cpu"

    def get_shape(self) -> list[int]:
        """Returns its shape, in PyTorch's order."""
        return list(self.stored.shape)

    def get_dtype(self) -> str:
        """Returns safetensors' name of the type in which it is read."""
        return self.stored.kind if self.stored.kind in _PLAIN else "BF16"

    def __getitem__(self, place: int | slice | tuple[slice, ...]) -> Tensor:
        if isinstance(place, tuple):
            return self[place[0]][(slice(None), *place[1:])]
        if isinstance(place, int):
            return self[place : place + 1][0]
        shape = self.get_shape()
        begin, end, step = place.indices(shape[0])
        if step != 1:
            raise ValueError(f"a tensor of a GGUF file is read without gaps, not in steps of {step}")
        made = torch.empty(max(0, end - begin), *shape[1:], dtype=_PLAIN.get(self.stored.kind, torch.bfloat16))
        raw = self._raw()
        for first, last in _pieces(begin, end, made[:1].numel()):
            made[first - begin : last - begin] = self._turned_back(raw[first:last])
        return made.to(self.device)

    def _raw(self) -> "np.ndarray[Any, Any]":
        """Returns its bytes, mapped; a row for each place along the first dimension."""
        import numpy as np

        stored = self.stored
        if len(stored.shape) < 2 and stored.kind not in _PLAIN:
            raise CheckpointError(f"{stored.name} is a vector of {stored.kind}, which is not supported")
        try:
            mapped = np.memmap(self.path, np.uint8, "r", stored.begin, (stored.bytes,))
        except (ValueError, OSError) as error:
            raise CheckpointError(f"{self.path} is truncated: {stored.name} ends behind it ({error})") from None
        return mapped.reshape(stored.shape[0], -1)

    def _turned_back(self, raw: "np.ndarray[Any, Any]") -> Tensor:
        import numpy as np
        from gguf import GGMLQuantizationType
        from gguf.quants import dequantize

        kind, shape = self.stored.kind, (len(raw), *self.stored.shape[1:])
        held = np.array(raw)
        if kind in _PLAIN:
            return torch.from_numpy(held).view(_PLAIN[kind]).view(shape)
        try:
            with np.errstate(all="ignore"):  # what is not finite is refused where it is used, by name
                return torch.from_numpy(dequantize(held.reshape(*shape[:-1], -1), GGMLQuantizationType[kind]))
        except NotImplementedError:
            message = f"{self.stored.name} is {kind}, which the gguf package cannot turn back"
            raise CheckpointError(message) from None


def _pieces(begin: int, end: int, row: int) -> Iterator[tuple[int, int]]:
    """Yields ranges of rows, each with no more than `PIECE` numbers where one row has no more already."""
    count = max(1, PIECE // max(1, row))
    for first in range(begin, end, count):
        yield first, min(first + count, end)


class GgufFile:
    """Reads an open GGUF file, with the methods of an open safetensors file."""

    def __init__(self, path: Path, device: str = "cpu") -> None:
        """
        Raises:
            CheckpointError: see `read_header`.
        """
        self._path, self._device = path, device
        self._tensors = {hf_name(stored.name): stored for stored in read_table(path) if stored.name != ROPE_FACTORS}

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
        return GgufSlice(self._path, self._tensors[name], self._device)

    def get_tensor(self, name: str) -> Tensor:
        """Reads a tensor.

        Raises:
            KeyError: there is none of this name.
        """
        return self.get_slice(name)[:]
