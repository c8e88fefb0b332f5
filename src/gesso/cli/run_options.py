"""Holds the options that all commands that train share, and refuses what is impossible of them before anything is read.
Imported when a run starts."""

import contextlib
import json
import os
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from gesso.errors import OptionError
from gesso.extras import pip_install
from gesso.models.device import pick_device
from gesso.nn.cpu_threads import decide
from gesso.options import keyword
from gesso.train.checkpoint import checkpoints

STATE = "trainer.json"
"""What a run writes beside its weights (`gesso.train.checkpoint`, which takes long to import)."""
EXPORTS = "exports.txt"
"""Names the folders that a run wrote its result to, seen from its own, a JSON string a line: these it may replace."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Says where a run lies and computes, when it ends and what it shows. Threads are taken when this is made.

    Raises:
        OptionError: an option that is impossible, one whose package is not installed, or a folder that cannot be one
            or holds what is not this run's.
    """

    out: Path
    device: str
    stop_at: int | None
    max_minutes: float | None
    threads: int | None
    plot: bool
    tensorboard: bool
    result: str | None = None
    """Name of the folder in `out` where the result ends; None where there is none besides checkpoints."""
    export: Path | None = None

    def __post_init__(self) -> None:
        if self.stop_at is not None and self.stop_at < 1:
            raise OptionError(f"--stop-at must be above 0, got {self.stop_at}", option=keyword("--stop-at"))
        if self.max_minutes is not None and not self.max_minutes > 0:
            raise OptionError(f"--max-minutes must be above 0, got {self.max_minutes}", option=keyword("--max-minutes"))
        for option, wanted, package in (
            ("plot", self.plot, "matplotlib"),
            ("tensorboard", self.tensorboard, "tensorboard"),
        ):
            if wanted and find_spec(package) is None:
                raise OptionError(f"--{option} needs {package}: {pip_install('train')}", option=option)
        pick_device(self.device)
        check_folder(self.out, "out")
        inner = next(
            (folder for folder in (self.out, *self.out.absolute().parents) if (folder / STATE).is_file()), None
        )
        if inner is not None:
            raise OptionError(f"--out {self.out}: {inner} is a checkpoint of a run: name another folder", option="out")
        if self.result is not None and is_filled(self.out / self.result) and not checkpoints(self.out):
            raise OptionError(
                f"--out {self.out} holds {self.result} already, and no run that goes on: name another folder",
                option="out",
            )
        if self.export is not None:
            check_folder(self.export, "export")
            place, out = self.export.resolve(), self.out.resolve()
            inside = place.relative_to(out).parts if out in place.parents else ()
            if place == out or place in out.parents or (inside and inside[0].startswith("step-")):
                raise OptionError(f"--export {self.export} is where the run lies: name another folder", option="export")
            if is_filled(self.export) and place not in exported(self.out):
                raise OptionError(
                    f"--export {self.export} is there already and no empty folder, and this run did not write it: "
                    "remove it, or name another",
                    option="export",
                )
        decide(self.threads)


def check_folder(folder: Path, option: str) -> None:
    """Refuses what cannot be a folder.

    Raises:
        OptionError: it is a file, or lies in one.
    """
    there = next((path for path in (folder, *folder.absolute().parents) if path.exists()), None)
    if there is not None and not there.is_dir():
        what = "a file, and it names a folder" if there == folder else f"no folder: {there} is a file"
        raise OptionError(f"--{option} {folder} is {what}", option=option)


def is_filled(folder: Path) -> bool:
    """Says whether there is something in a folder."""
    return folder.is_dir() and any(folder.iterdir())


def exported(out: Path) -> list[Path]:
    """Returns the folders that the run in `out` wrote its result to; they may have been moved with it."""
    path = out / EXPORTS
    lines = path.read_text("ascii", errors="replace").splitlines() if path.is_file() else []
    with contextlib.suppress(ValueError, TypeError):  # somebody else's file of that name
        return [(out.resolve() / json.loads(line)).resolve() for line in lines]
    return []


def note_export(out: Path, folder: Path) -> None:
    """Notes that the run in `out` writes its result to `folder`."""
    if folder.resolve() not in exported(out):
        with (out / EXPORTS).open("a", encoding="ascii") as file:
            file.write(json.dumps(os.path.relpath(folder.resolve(), out.resolve())) + "\n")
