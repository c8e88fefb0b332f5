"""Reads and writes the files of commands, to the byte, and says beforehand what could not be written."""

import contextlib
import errno
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gesso.errors import GessoError, OptionError, TextError
from gesso.whole_file import replace_file, write_beside

if TYPE_CHECKING:
    from io import FileIO


MOST = 2**26
"""Bytes or characters of a text that is read at most, far more than any context holds: a device may have no end."""


def read_text(file: str) -> tuple[bytes, str]:
    """Returns what a file holds, and the same as text with its line ends as they are; `-` is standard input.

    Raises:
        OSError: it cannot be read.
        TextError: it is no UTF-8 text, or does not end.
    """
    named = "standard input" if file == "-" else file
    with contextlib.nullcontext(sys.stdin.buffer) if file == "-" else Path(file).open("rb") as stream:
        data = stream.read(MOST + 1)
    if len(data) > MOST:
        raise TextError(f"{named} is longer than {MOST:,} bytes")
    try:
        return data, data.decode()
    except UnicodeDecodeError as error:
        raise TextError(f"{named} is no UTF-8 text: {error}") from None


def check_output(path: Path, option: str) -> None:
    """Refuses a file that could not be written in the end, before a command does its work.

    Args:
        option: the one that names the file.

    Raises:
        OptionError: it is a folder or a link to itself, its folder is not there, or one of them must not be written to.
    """
    target = Path(os.path.realpath(path))
    folder = target.parent
    if path.exists():
        obstacle = errno.EISDIR if path.is_dir() else 0 if os.access(path, os.W_OK) else errno.EACCES
    elif target.is_symlink():
        obstacle = errno.ELOOP
    elif not folder.is_dir():
        obstacle = errno.ENOENT
    else:
        obstacle = 0 if os.access(folder, os.W_OK | os.X_OK) else errno.EACCES
    if obstacle:
        raise OptionError(f"--{option} {path}: {os.strerror(obstacle)}", option=option)


def check_has_place(file: str) -> None:
    """Refuses to write standard input (`-`), a pipe or a device in place.

    Raises:
        OptionError: one of them is meant.
    """
    if file == "-":
        raise OptionError("--in-place needs a file: standard input cannot be written", option="in_place")
    path = Path(file)
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise OptionError(f"--in-place needs a file: {path} is a pipe or a device", option="in_place")


def check_replaceable(path: Path) -> None:
    """Refuses a file whose place another one could not take.

    Raises:
        PermissionError: it must not be written to, or its folder takes no files.
    """
    # A link stays a link: what it leads to is written.
    target = path.resolve()
    if not os.access(target, os.W_OK):  # another file could take its place all the same
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    if not os.access(target.parent, os.W_OK | os.X_OK):
        named = f"{path}: the folder {target.parent} takes no files"
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), named)


def write_atomically(path: Path, old: bytes, new: bytes) -> None:
    """Puts `new` in the place of a file that holds `old`, or leaves it as it is; its mode is kept, and its owner where
    whoever writes may give files away. A file with several hard links is written itself, so that all of them lead to
    `new`; `old` stands beside it until that is done.

    Raises:
        GessoError: the file holds something else by now, or could be neither written nor restored.
        PermissionError: see `check_replaceable`.
    """
    check_replaceable(path)
    target = path.resolve()
    try:
        if target.stat().st_nlink > 1:
            _overwrite(path, target, old, new)
        else:
            replace_file(target, new, lambda: _check_unchanged(path, target.read_bytes(), old))
    except OSError as error:
        error.filename, error.filename2 = str(path), None  # a disk that is full names none
        raise


def _overwrite(path: Path, target: Path, old: bytes, new: bytes) -> None:
    beside, intact = write_beside(target, old), True
    try:
        with target.open("r+b", buffering=0) as file:
            _check_unchanged(path, file.read(), old)
            intact = False
            try:
                _write_over(file, new)
            except BaseException:
                _write_over(file, old)
                intact = True
                raise
            intact = True
    except OSError as error:
        if intact:
            raise
        raise GessoError(f"{path} is written in part: {error.strerror}; {beside} has what it held before") from None
    finally:
        if intact:
            beside.unlink(missing_ok=True)


def _write_over(file: "FileIO", data: bytes) -> None:
    """Makes these bytes all that an open file holds."""
    file.seek(0)
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]
    file.truncate()
    os.fsync(file.fileno())


def _check_unchanged(path: Path, held: bytes, old: bytes) -> None:
    if held != old:
        raise GessoError(f"{path} was changed by somebody else meanwhile, so it is left as it is")
