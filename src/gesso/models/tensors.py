"""Reads tensors from safetensors and GGUF files, and checks that they are there, of the right shape and finite."""

from collections.abc import Container, Iterator, Mapping, Set
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from gesso.errors import CheckpointError
from gesso.models.gguf.file import GgufFile
from gesso.models.gguf.names import is_gguf
from gesso.models.state_dict_adapter import tied_to, to_hf
from gesso.models.vision_names import VISION_PREFIXES
from gesso.models.weight_index import INDEX

FLOATS = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
"""Types that weights which are not packed are stored in, by the names of safetensors."""
TILE = 1 << 20
"""Numbers of a tensor that are cast at a time: 4 MiB of fp32."""
LFS_POINTER = b"version https://git-lfs.github.com/spec/"
"""Begins a file that a clone without Git LFS has in the place of a large one."""
_KINDS = {torch.int8: "I8", torch.uint8: "U8", torch.float32: "F32", torch.bfloat16: "BF16"}
"""Names of safetensors for the types of packed tensors."""


def open_file(path: Path, device: str = "cpu") -> Any:
    """Opens a safetensors file, memory-mapped, or a GGUF file by the same methods.

    Raises:
        CheckpointError: the file cannot be read.
    """
    if is_gguf(path):
        return GgufFile(path, device)
    try:
        return safe_open(path, framework="pt", device=device)
    except (SafetensorError, OSError) as error:
        if _is_lfs_pointer(path):
            message = f"{path} only names the weights, which Git LFS holds: fetch them (git lfs pull, or gesso pull)"
            raise CheckpointError(message) from None
        raise CheckpointError(f"{path} is truncated or no safetensors file: {error}") from None


def _is_lfs_pointer(path: Path) -> bool:
    """Says whether a file is what a clone without Git LFS has in the place of a large one."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(LFS_POINTER)) == LFS_POINTER


def find_tensor(file: Any, name: str, path: Path) -> Any:
    """Returns the slice of an open file that is a whole tensor, of which nothing is read yet.

    Raises:
        CheckpointError: the file does not hold it.
    """
    try:
        return file.get_slice(name)
    except (SafetensorError, KeyError):
        raise CheckpointError(f"{path.name} lacks {name}, which {INDEX} says it holds") from None


def read_tensor(name: str, path: Path) -> Tensor:
    """Reads a tensor as it is stored.

    Raises:
        CheckpointError: the file cannot be read, or see `read_whole`.
    """
    with open_file(path) as file:
        return read_whole(file, name, path)


def read_whole(file: Any, name: str, path: Path) -> Tensor:
    """Reads a tensor of an open file as it is stored.

    Raises:
        CheckpointError: the file does not hold it, or it is of a type that PyTorch does not have.
    """
    found = find_tensor(file, name, path)
    try:
        tensor: Tensor = file.get_tensor(name)
    except SafetensorError as error:
        raise CheckpointError(f"{name} in {path.name}, of type {found.get_dtype()}, cannot be read: {error}") from None
    return tensor


def sources(
    folder: Path, files: Mapping[str, Path], wanted: Mapping[str, Tensor], apart: Set[str] = frozenset()
) -> dict[str, tuple[str, Path]]:
    """Returns the Hugging Face name and the file of every tensor that is `wanted`, in the order of the files.

    Args:
        files: which file holds which tensor.
        apart: Hugging Face names of tensors that must be there too, and are read by others.

    Raises:
        CheckpointError: tensors are missing, or there are others that are not known.
    """
    names = {name: to_hf(name) for name in wanted}
    known = {*names.values(), *apart}
    foreign = [n for n in files if n not in known and tied_to(n) not in known and not n.startswith(VISION_PREFIXES)]
    if foreign:
        raise CheckpointError(f"unknown tensors in {folder}: {_names(foreign)}")
    missing = [hf_name for hf_name in known if hf_name not in files]
    if missing:
        raise CheckpointError(f"tensors missing in {folder}: {_names(missing)}")
    found = {name: (hf_name, files[hf_name]) for name, hf_name in names.items()}
    return dict(sorted(found.items(), key=lambda item: item[1][1]))


@contextmanager
def open_checked(hf_name: str, path: Path, like: Tensor, packed: bool, device: str = "cpu") -> Iterator[Any]:
    """Opens the file that holds a tensor of the shape and kind of `like`; floats of any width will do where it is not
    packed.

    Raises:
        CheckpointError: the tensor is not there, or not what it should be.
    """
    with open_file(path, device) as file:
        found = find_tensor(file, hf_name, path)
        check_stored(hf_name, list(found.get_shape()), found.get_dtype(), like, packed)
        yield file


def check_stored(hf_name: str, shape: list[int], kind: str, like: Tensor, packed: bool) -> None:
    """Checks what a safetensors header says of a tensor.

    Args:
        kind: its type, by the name of safetensors.

    Raises:
        CheckpointError: it is not of the shape and kind of `like`; floats of any width will do where it is not packed.
    """
    if shape != list(like.shape):
        raise CheckpointError(f"{hf_name} has shape {shape}, the config says {list(like.shape)}")
    if packed and kind != _KINDS[like.dtype]:
        raise CheckpointError(f"{hf_name} is {kind}, the config says {_KINDS[like.dtype]}")
    if not packed and kind not in FLOATS:
        raise CheckpointError(f"{hf_name} is {kind}: quantized, which config.json does not say")


def check_copies(files: Mapping[str, Path], names: Container[str], dtype: torch.dtype) -> list[str]:
    """Returns the names of tensors that are stored a second time, and checks that they equal the first.

    Raises:
        CheckpointError: one is not.
    """
    copies = {name: tied for name in files if (tied := tied_to(name)) is not None and tied in names}
    for copy, original in copies.items():
        if not _equal(read_tensor(copy, files[copy]), read_tensor(original, files[original]), dtype):
            raise CheckpointError(f"{copy} differs from {original}; gesso reads tied checkpoints only")
    return list(copies)


def check_finite(name: str, tensor: Tensor) -> None:
    """Refuses NaN and infinity, at the cost of reading the tensor once.

    Raises:
        CheckpointError: a number is not finite.
    """
    if not _is_finite(tensor):
        raise CheckpointError(f"{name} holds numbers that are not finite (NaN or infinity): the weights are damaged")


def cast_finite(name: str, tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """Returns a tensor in another type, all of its numbers finite in it.

    Raises:
        CheckpointError: a number is not finite, or too large for the type.
    """
    cast = tensor.to(dtype)
    if not _is_finite(cast):
        check_finite(name, tensor)
        kind = str(dtype).removeprefix("torch.")
        raise CheckpointError(f"{name} holds numbers that are too large for {kind}: take another dtype")
    return cast


def _is_finite(tensor: Tensor) -> bool:
    """Says whether no number is NaN or infinite, at the cost of reading the tensor once."""
    if not tensor.is_floating_point() or not tensor.numel() or tensor.is_meta:
        return True
    if tensor.itemsize == 1:  # e4m3 has no infinity, and NaN is all ones behind the sign
        return not bool((tensor.view(torch.uint8) & 0x7F == 0x7F).any())
    least, largest = tensor.aminmax()
    return bool(least.isfinite() & largest.isfinite())


def _equal(first: Tensor, second: Tensor, dtype: torch.dtype) -> bool:
    """Says whether two tensors are the same in `dtype`; a tile of each is cast at a time."""
    tiles = zip(first.flatten().split(TILE), second.flatten().split(TILE), strict=False)
    return first.shape == second.shape and all(torch.equal(one.to(dtype), other.to(dtype)) for one, other in tiles)


def _names(names: list[str]) -> str:
    shown = ", ".join(sorted(names)[:4])
    return shown if len(names) <= 4 else f"{shown} and {len(names) - 4} more"
