"""Writes a file all or not at all: what stands in its place is kept until the new one is whole."""

import os
import secrets
import shutil
from pathlib import Path


def write_whole(path: Path, data: bytes) -> None:
    """Makes these bytes a file, or leaves what is there as it is.

    A link stays a link, and a mode is kept. A device or a pipe, a file of several hard links and one in a folder that
    takes no files are written themselves.

    Raises:
        OSError: it cannot be written; it names the file.
    """
    try:
        target = path.resolve()
        beside = target.parent / f".gesso-{secrets.token_hex(8)}"
        if not _is_replaceable(target):
            path.write_bytes(data)
            return
        try:
            with beside.open("xb") as file:
                file.write(data)
            if target.exists():
                shutil.copymode(target, beside)
            beside.replace(target)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
    except OSError as error:
        error.filename, error.filename2 = str(path), None
        raise


def _is_replaceable(target: Path) -> bool:
    if not os.access(target.parent, os.W_OK | os.X_OK):
        return False
    return not target.exists() or (target.is_file() and os.access(target, os.W_OK) and target.stat().st_nlink == 1)
