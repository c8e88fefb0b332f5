"""Packs a tensor a tile at a time, wherever the tiles come from, and asks the disk for room."""

import math
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from gesso.errors import CheckpointError, OptionError
from gesso.models.state_dict_adapter import to_hf
from gesso.models.tensors import TILE
from gesso.nn.quant.base import Format
from gesso.nn.quant.layers import part_names
from gesso.nn.quant.packing import pack
from gesso.options.sizes import named_size


@dataclass(frozen=True, slots=True)
class PackedTensor:
    """Holds what is written of a tensor."""

    parts: dict[str, Tensor]
    """Tensors that are written, by Hugging Face name."""
    error: float
    """|W - packed W| / |W| (Frobenius)."""


def form_of(name: str, forms: Mapping[str, Format]) -> Format | None:
    """Returns the format of a tensor, given those of the layers; biases have none."""
    return None if name.endswith(".bias") else forms.get(name.rpartition(".")[0])


def places(like: Tensor) -> Iterator[int | slice]:
    """Yields the tiles of a tensor, in order: experts one by one, or rows of a matrix, which every format packs by
    themselves."""
    if like.dim() == 3:
        yield from range(len(like))
        return
    rows = max(1, TILE // like.shape[1])
    for begin in range(0, len(like), rows):
        yield slice(begin, min(begin + rows, len(like)))


def pack_tiles(name: str, like: Tensor, form: Format, tiles: Iterable[tuple[int | slice, Tensor]]) -> PackedTensor:
    """Packs a tensor of the shape of `like`.

    Args:
        name: ours.
        tiles: of `places`, with their weights.

    Raises:
        CheckpointError: a number is not finite.
    """
    lost, size = 0.0, 0.0
    parts = _empty(like, form)
    for place, weight in tiles:
        made, more_lost, more = pack(weight, form)
        lost, size = lost + more_lost, size + more
        for part, new in zip(parts, made, strict=True):
            part[place].copy_(new)
    error = math.sqrt(lost / size) if size else lost
    if not math.isfinite(error):
        raise CheckpointError(f"{to_hf(name)} holds numbers that are not finite: it cannot be quantized")
    return PackedTensor({to_hf(new): part for new, part in zip(part_names(name, form), parts, strict=True)}, error)


def _empty(like: Tensor, form: Format) -> tuple[Tensor, ...]:
    parts = form.empty(*like.shape[-2:])
    return parts if like.dim() == 2 else tuple(part.new_empty(like.shape[0], *part.shape) for part in parts)


def check_disk(out: Path, needed: int, what: str | None = None) -> None:
    """Asks the disk that `out` is on, or will be, for room.

    Args:
        what: who needs the room; the option `--out` without it.

    Raises:
        OptionError: there is not enough.
    """
    place = next(parent for parent in out.absolute().parents if parent.exists())
    free = shutil.disk_usage(place).free
    if needed > free:
        raise OptionError(
            f"{what or f'--out {out}'} needs {named_size(needed, up=True)}, and its disk has {named_size(free)} free",
            option="out",
        )
