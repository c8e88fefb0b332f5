"""Remembers how far a conversion is, so that one that was broken off goes on from its last whole file."""

import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from gesso.errors import OptionError
from gesso.file_lock import held_folder
from gesso.json_files import read_json
from gesso.models.saving import write_json

FILE = "conversion.json"
"""Stands beside the files that are written, until all are."""
ACTIVATIONS = "activations.calibration"
"""Stands there too where scales are found from activations."""


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
        if found.of == of and _is_sound(found, fresh({})) and all((folder / name).exists() for name in found.shards):
            return found
    return fresh(of)


def _is_sound(found: Written, empty: Written) -> bool:
    """Says whether what a file tells is of the kinds that are written into it."""
    pairs = [(getattr(found, told.name), getattr(empty, told.name)) for told in fields(empty)]
    kinds = all(isinstance(value, dict | None if like is None else type(like)) for value, like in pairs)
    return kinds and all(isinstance(name, str) for name in (*found.shards, *found.weight_map.values()))


@contextmanager
def started(folder: Path, of: dict[str, Any], fresh: Callable[..., W]) -> Iterator[W]:
    """Yields what `peek` returns and keeps other processes from the folder meanwhile; anything else there, of an
    earlier conversion or of a file that was not finished, is removed.

    Raises:
        OptionError: see `partial_of`; or another process writes there.
    """
    _check_own(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with held_folder(folder, f"{folder} is being written by another process"):
        found = peek(folder, of, fresh)
        if not (found.shards or found.observed):
            found.save(folder)  # first: without it the folder would be no conversion's
        kept = {FILE, *found.shards, *([ACTIVATIONS] if found.observed else [])}
        for path in folder.iterdir():
            if path.name not in kept:
                path.unlink() if path.is_symlink() or not path.is_dir() else shutil.rmtree(path)
        yield found


def partial_of(out: Path) -> Path:
    """Returns the folder that a conversion into `out` writes first, beside it.

    Raises:
        OptionError: something of that name is there, and no conversion made it.
    """
    partial = out.with_name(out.name + ".partial")
    _check_own(partial)
    return partial


def _check_own(partial: Path) -> None:
    own = partial.is_dir() and not partial.is_symlink() and ((partial / FILE).exists() or not any(partial.iterdir()))
    if not own and (partial.exists() or partial.is_symlink()):
        raise OptionError(
            f"{partial}, which is written on the way to --out, is there already and of nothing that was broken off: "
            "move it, or name another",
            option="out",
        )
