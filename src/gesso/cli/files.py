"""Reads and writes the files of commands, to the byte."""

import errno
import os
import sys
from pathlib import Path

from gesso.errors import GessoError, TextError


def read_text(file: str) -> tuple[bytes, str]:
    """Returns what a file holds, and the same as text with its line ends as they are; `-` is standard input.

    Raises:
        OSError: it cannot be read.
        TextError: it is no UTF-8 text.
    """
    data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    try:
        return data, data.decode()
    except UnicodeDecodeError as error:
        raise TextError(f"{'standard input' if file == '-' else file} is no UTF-8 text: {error}") from None


def write_atomically(path: Path, old: bytes, new: bytes) -> None:
    """Puts `new` in the place of a file that holds `old`, or leaves it as it is; its mode is kept.

    Raises:
        GessoError: the file holds something else by now.
        PermissionError: it must not be written to.
    """
    import shutil
    import tempfile

    # A link stays a link: what it leads to is written.
    target = path.resolve()
    if not os.access(target, os.W_OK):  # another file could take its place all the same
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=".gesso-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(new)
            file.flush()
            os.fsync(file.fileno())
        shutil.copymode(target, name)
        if target.read_bytes() != old:
            raise GessoError(f"{path} was changed by somebody else meanwhile, so it is left as it is")
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
