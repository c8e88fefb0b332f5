"""Writes a file all or not at all: what stands in its place is kept until the new one is whole."""

import errno
import os
import secrets
import shutil
import sys
from contextlib import suppress
from pathlib import Path

_ONLY_ITSELF = (errno.EACCES, errno.EPERM, errno.EBUSY, errno.EROFS)
"""Errors of a folder that takes no files, of one that lets nobody take a stranger's place, and of a mounted file."""


def write_whole(path: Path, data: bytes) -> None:
    """Makes these bytes a file, or leaves what is there as it is.

    A link stays a link; a mode is kept, and an owner where whoever writes may give files away. What no other file can
    take the place of is written itself: a device or a pipe, a file of several hard links, one that is mounted, and one
    in a folder that takes no files.

    Raises:
        OSError: it cannot be written; it names the file.
    """
    try:
        try:
            if _is_replaceable(path):
                _replace(Path(os.path.realpath(path)), data)
                return
        except OSError as error:
            if error.errno not in _ONLY_ITSELF:
                raise
        path.write_bytes(data)
    except OSError as error:
        error.filename, error.filename2 = str(path), None
        raise


def _replace(target: Path, data: bytes) -> None:
    beside = target.parent / f".gesso-{secrets.token_hex(8)}"
    try:
        with beside.open("xb") as file:
            file.write(data)
        if target.exists():
            if sys.platform != "win32":
                with suppress(OSError):
                    os.chown(beside, target.stat().st_uid, target.stat().st_gid)
            shutil.copymode(target, beside)
        beside.replace(target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def _is_replaceable(path: Path) -> bool:
    # What a path is, not what it resolves to: `/dev/stdout` leads to a name that is no file's, where it is a pipe.
    if not path.exists():
        return not Path(os.path.realpath(path)).is_symlink()
    return path.is_file() and os.access(path, os.W_OK) and path.stat().st_nlink == 1
