"""Keeps two processes from writing the same file or folder at once, where the system and the file system have such
locks.

A lock belongs to an open file and goes with it, however the process ends: nothing is left to be cleaned up.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from gesso.errors import OptionError

try:
    import fcntl
except ModuleNotFoundError:  # Windows has other locks; there nothing keeps two processes apart
    fcntl = None  # type: ignore[assignment]

_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP}
"""What file systems without locks say."""


def hold(file: BinaryIO | int, refusal: str, option: str) -> None:
    """Locks an open file, or a descriptor, for as long as it is open.

    Raises:
        OptionError: with this refusal, where another process holds it.
    """
    if fcntl is None:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise OptionError(refusal, option=option) from None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise


_held: set[int] = set()
"""Descriptors that a process forked from this one closes: a lock would be its own as well, and outlive this one."""


def _let_go() -> None:
    while _held:
        os.close(_held.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)


@contextmanager
def held_folder(folder: Path, refusal: str) -> Iterator[None]:
    """Locks a folder, which is there; it may be filled, emptied and renamed meanwhile, but not made anew.

    Raises:
        OptionError: of the option `out`, with this refusal, where another process holds it.
    """
    if fcntl is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    _held.add(handle)
    try:
        hold(handle, refusal, "out")
        yield
    finally:
        if handle in _held:
            _held.discard(handle)
            os.close(handle)
