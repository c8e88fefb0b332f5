"""Writes a file all or not at all: what stands in its place is kept until the new one is whole."""

import errno
import os
import shutil
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

_IRREPLACEABLE = (errno.EACCES, errno.EPERM, errno.EBUSY, errno.EROFS)
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
                replace_file(Path(os.path.realpath(path)), data)
                return
        except OSError as error:
            if error.errno not in _IRREPLACEABLE:
                raise
        path.write_bytes(data)
    except OSError as error:
        error.filename, error.filename2 = str(path), None
        raise


def replace_file(target: Path, data: bytes, check: Callable[[], object] = lambda: None) -> None:
    """Puts a file of these bytes in the place of another one, whose mode is kept, and its owner where whoever writes
    may give files away; or makes a new one.

    Args:
        target: no link.
        check: raises where the file must stay after all; called when the new one is ready.

    Raises:
        OSError: it cannot be written, or cannot take that place.
    """
    beside = write_beside(target, data)
    try:
        if target.exists():
            before = target.stat()
            if sys.platform != "win32":
                with suppress(OSError):
                    os.chown(beside, before.st_uid, before.st_gid)
            beside.chmod(stat.S_IMODE(before.st_mode))
        check()
        beside.replace(target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def write_beside(target: Path, data: bytes) -> Path:
    """Writes a new file into the folder of another one, all the way to the disk; nobody else may read it where the
    other one is there, whose own mode may say so.

    Raises:
        OSError: it cannot be written.
    """
    beside = target.parent / f".gesso-{os.urandom(8).hex()}"
    mode = 0o600 if target.exists() else 0o666
    try:
        with open(beside, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    return beside


def link_or_copy(source: Path, target: Path) -> None:
    """Gives a file another name; on a file system without hard links, as exFAT and some mounts of containers are, a
    copy has it, which is on the disk then, or not there.

    Raises:
        OSError: it cannot be written.
    """
    try:
        os.link(source, target)
        return
    except FileExistsError:
        raise
    except OSError:
        pass
    try:
        with source.open("rb") as held, target.open("wb") as file:
            shutil.copyfileobj(held, file)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        target.unlink(missing_ok=True)
        raise


def _is_replaceable(path: Path) -> bool:
    # What a path is, not what it resolves to: `/dev/stdout` leads to a name that is no file's, where it is a pipe.
    if not path.exists():
        return not Path(os.path.realpath(path)).is_symlink()
    return path.is_file() and os.access(path, os.W_OK) and path.stat().st_nlink == 1
