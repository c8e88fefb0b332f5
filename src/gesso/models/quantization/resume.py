"""Remembers how far a conversion is, so that one that was broken off goes on from its last whole file."""

import shutil
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from gesso.json_files import read_json
from gesso.models.saving import write_json

FILE = "conversion.json"
"""Stands beside the files that are written, until all are."""


@dataclass(slots=True)
class Written:
    """Tells what has been written of a conversion."""

    of: dict[str, Any]
    """What is converted, and how: another conversion does not go on from it."""
    shards: list[str] = field(default_factory=list)
    weight_map: dict[str, str] = field(default_factory=dict)
    worst: float = 0.0
    """Largest error of a tensor so far."""
    tensor: str = ""
    observed: bool = False
    """Whether the activations that scales are found from lie beside the files."""
    products: dict[str, tuple[float, float, float]] = field(default_factory=dict)
    """Exponent of the scales, and the errors without and with them, by the name of what was scaled."""

    def save(self, folder: Path) -> None:
        """Writes this into `folder`, after the files that it names."""
        write_json(folder / FILE, asdict(self))


W = TypeVar("W", bound=Written)


def fingerprint(files: Iterable[Path], chosen: dict[str, Any]) -> dict[str, Any]:
    """Describes a conversion: names, sizes and times of the weights' files, and the formats."""
    stats = {path.name: (path, path.stat()) for path in sorted(set(files))}
    return {
        "formats": chosen,
        "files": {name: [str(path.resolve()), stat.st_size, stat.st_mtime_ns] for name, (path, stat) in stats.items()},
    }


def peek(folder: Path, of: dict[str, Any], fresh: Callable[..., W]) -> W:
    """Returns what has been written of this conversion into `folder`, and changes nothing there.

    Args:
        fresh: `Written`, or a kind of it that tells more.
    """
    if (folder / FILE).exists():
        try:
            found = fresh(**read_json(folder / FILE))
        except (TypeError, ValueError):  # no file of ours, or one that was cut off
            found = fresh({})
        if found.of == of and all((folder / shard).exists() for shard in found.shards):
            return found
    return fresh(of)


def start(folder: Path, of: dict[str, Any], fresh: Callable[..., W]) -> W:
    """Returns what `peek` does; anything else in the folder is removed."""
    found = peek(folder, of, fresh)
    if not found.shards and not found.observed:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    return found
