"""Reads and writes all weights of a checkpoint of one file, for tools that change them as they are."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from safetensors import safe_open
from torch import Tensor

from gesso.errors import CheckpointError, UserError
from gesso.models.saving import write_tensors

WEIGHTS = "model.safetensors"


def read_weights(folder: Path) -> tuple[dict[str, Tensor], dict[str, str] | None]:
    """Returns the tensors by name, and the file's metadata.

    Raises:
        CheckpointError: the folder has no such file.
    """
    path = folder / WEIGHTS
    if not path.is_file():
        raise CheckpointError(f"{folder} has no {WEIGHTS}")
    with safe_open(path, framework="pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, file.metadata()  # noqa: SIM118 - it is no mapping


def write_copy(folder: Path, out: Path, tensors: dict[str, Tensor], metadata: dict[str, str] | None) -> None:
    """Writes a copy of the checkpoint in `folder` with other weights to `out`, which may be the same folder."""
    if folder.resolve() != out.resolve():
        shutil.copytree(folder, out, dirs_exist_ok=True, ignore=shutil.ignore_patterns(WEIGHTS))
    write_tensors(out / WEIGHTS, tensors, metadata)


def run_tool(main: Callable[[], None]) -> None:
    """Runs `main`; a user's mistake ends the process with one line and exit code 2."""
    try:
        main()
    except UserError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(2)
