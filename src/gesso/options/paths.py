"""Checks paths that users give in Python."""

import os
from pathlib import Path

from gesso.errors import OptionError


def checked_path(name: str, value: object) -> Path:
    """Returns the path that the argument `name` holds.

    Raises:
        OptionError: it holds something else, or an empty text, which would be the current folder.
    """
    if not isinstance(value, str | os.PathLike):
        raise OptionError(f"{name} must be a path, got {value!r:.60}", option=name)
    if value == "":
        raise OptionError(f"{name} is empty, and names a folder or a file", option=name)
    return Path(value)
