"""Declares the options that all commands that train share, and refuses what is impossible of them before anything is
read."""

import contextlib
import json
import os
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from gesso.errors import OptionError
from gesso.extras import pip_install
from gesso.load_options import MODEL
from gesso.options import checked, option

STATE = "trainer.json"
"""What a run writes beside its weights (`gesso.train.checkpoint`, which takes long to import)."""
EXPORTS = "exports.txt"
"""Names the folders that a run wrote its result to, seen from its own, a JSON string a line: these it may replace."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Says when a run ends, what it shows and where it computes.

    Raises:
        OptionError: an option that is impossible, or one whose package is not installed.
    """

    stop_at: int | None = option(None, "End after this step; the schedule stays as it is.", minimum=1, field=None)
    max_minutes: float | None = option(None, "Write a checkpoint and end after so many minutes.", above=0, field=None)
    plot: bool = option(False, "Draw the losses into loss.png at the end.", field=None)
    tensorboard: bool = option(False, "Write TensorBoard's files as well.", field=None)
    threads: int | None = option(None, "CPU threads; all cores without it.", minimum=1, maximum=1024, field=None)
    device: str = option("auto", "auto, cpu, cuda or mps.", field=None, group=MODEL)

    def __post_init__(self) -> None:
        checked(self)
        for name, wanted, package in (
            ("plot", self.plot, "matplotlib"),
            ("tensorboard", self.tensorboard, "tensorboard"),
        ):
            if wanted and find_spec(package) is None:
                raise OptionError(f"--{name} needs {package}: {pip_install('train')}", option=name)

    def prepare(self, out: Path, *, result: str | None = None, export: Path | None = None) -> None:
        """Refuses a machine or folders that cannot be a run's, and takes the threads.

        Args:
            out: where the run lies.
            result: the folder in `out` where the result ends; None where there is none besides checkpoints.
            export: where the result is written as well.

        Raises:
            OptionError: a device that does not exist, or a folder that cannot be one or holds what is not this run's.
        """
        from gesso.models.device import pick_device
        from gesso.nn.cpu_threads import decide
        from gesso.train.checkpoint import checkpoints

        pick_device(self.device)
        check_folder(out, "out")
        inner = next((folder for folder in (out, *out.absolute().parents) if (folder / STATE).is_file()), None)
        if inner is not None:
            raise OptionError(f"--out {out}: {inner} is a checkpoint of a run: name another folder", option="out")
        if result is not None and is_filled(out / result) and not checkpoints(out):
            raise OptionError(
                f"--out {out} holds {result} already, and no run that goes on: name another folder", option="out"
            )
        if export is not None:
            _check_export(export, out)
        decide(self.threads)


def _check_export(export: Path, out: Path) -> None:
    check_folder(export, "export")
    place, run = export.resolve(), out.resolve()
    inside = place.relative_to(run).parts if run in place.parents else ()
    if place == run or place in run.parents or (inside and inside[0].startswith("step-")):
        raise OptionError(f"--export {export} is where the run lies: name another folder", option="export")
    if is_filled(export) and place not in exported(out):
        raise OptionError(
            f"--export {export} is there already and no empty folder, and this run did not write it: remove it, or "
            "name another",
            option="export",
        )


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
