"""Replaces a checkpoint or an adapter that lies in a folder as a whole.

All that is new is written into a folder of its own first, inside the other: what is broken off leaves the old one as it
was. When it is complete, the config of the old one goes, the new files take their places, and the new config comes
last. So a folder holds the old one, or the new one, or for a moment none, and never some weights of each.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gesso.models.run_folders import ADAPTER_CONFIG

NAME = ".gesso-partial"
CONFIGS = ("config.json", ADAPTER_CONFIG)
"""Files without which a folder is no checkpoint, or no adapter."""


@contextmanager
def staged(folder: Path, stale: Callable[[str], bool] = lambda name: False) -> Iterator[Path]:
    """Yields an empty folder whose files take their places in `folder` at the end; an error leaves `folder` alone.

    Args:
        stale: says by its name of an older file that it goes then, where none of the new takes its place.

    Raises:
        OSError: a file cannot be written; what names none names `folder`.
    """
    partial, fresh = folder / NAME, not folder.exists()
    shutil.rmtree(partial, ignore_errors=True)  # of a process that was killed
    partial.mkdir(parents=True)
    try:
        yield partial
    except BaseException as error:
        shutil.rmtree(partial, ignore_errors=True)
        if fresh:
            with suppress(OSError):  # another process has put something there
                folder.rmdir()
        if isinstance(error, OSError) and error.errno is not None and error.filename is None:
            raise OSError(error.errno, error.strerror, str(folder)) from error
        raise
    new = sorted((path.name for path in partial.iterdir()), key=lambda name: (name in CONFIGS, name))
    for name in new:
        if name in CONFIGS:
            (folder / name).unlink(missing_ok=True)
    for path in folder.iterdir():
        if stale(path.name) and path.name not in new:
            path.unlink()
    for name in new:
        os.replace(partial / name, folder / name)
    partial.rmdir()
