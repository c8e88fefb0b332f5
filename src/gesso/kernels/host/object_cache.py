"""Keeps compiled kernels on disk: compiling those of a packed model takes longer than loading its weights.

A file is named by the digest of all that its code is made of, and begins with the digest of the code, so that one that
is spoilt is compiled anew. Whoever may write these files decides what runs: only a folder and files that belong to the
user, and that nobody else may write, are read.
"""

import hashlib
import os
import stat
from contextlib import suppress
from pathlib import Path

from gesso.whole_file import write_beside

MOST_FILES = 200
"""Files that are kept, of 50 kB at most so far; the oldest go."""
VARIABLE = "GESSO_KERNEL_CACHE"
"""Names another folder, or none, by which nothing is kept."""


def name_of(*parts: str) -> str:
    """Returns the name of the code that is made of these texts."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def folder() -> Path | None:
    """Returns where code is kept; None where it is not."""
    if (found := os.environ.get(VARIABLE)) is not None:
        return Path(found) if found else None
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    try:
        return cache.expanduser() / "gesso" / "kernels"
    except RuntimeError:  # nobody's home
        return None


def read(name: str) -> bytes | None:
    """Returns the code of this name; None where it is not kept, not whole, or where others may have written it."""
    place = folder()
    if place is None:
        return None
    try:
        with (place / name).open("rb") as file:
            if not (_is_the_users_own(place.stat()) and _is_the_users_own(os.fstat(file.fileno()))):
                return None
            digest, code = file.read(32), file.read()
    except OSError:
        return None
    return code if hashlib.sha256(code).digest() == digest else None


def keep(name: str, code: bytes) -> None:
    """Keeps code under its name, where the folder takes it."""
    place = folder()
    if place is None:
        return
    with suppress(OSError):
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _is_the_users_own(place.stat()):
            return
        whole = write_beside(place / name, hashlib.sha256(code).digest() + code)
        whole.chmod(0o600)  # a umask may let a group write new files
        whole.replace(place / name)
        for old in sorted(place.iterdir(), key=lambda path: path.stat().st_mtime)[:-MOST_FILES]:
            old.unlink()


def _is_the_users_own(found: os.stat_result) -> bool:
    if not hasattr(os, "geteuid"):
        return True
    return found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
