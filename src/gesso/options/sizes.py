"""Reads sizes that users write, such as 4GiB or 500MB, and writes them in a unit that suits."""

import math
import re

from gesso.errors import OptionError
from gesso.options.table import keyword

UNITS = {"": 1, "B": 1, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "KB": 10**3, "MB": 10**6, "GB": 10**9}
MOST = 2**63
"""Bytes that no memory has: more of them fit no number that sizes are computed with."""


def size_in_bytes(text: str, flag: str) -> int:
    """Reads `4GiB`, `500MB` or a plain number of bytes.

    Args:
        flag: the option that it is given to, such as `--fit`.

    Raises:
        OptionError: anything else, or more than any machine has.
    """
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?([A-Za-z]*)", text.strip())
    unit = UNITS.get(found[2].upper()) if found else None
    size = float(found[1]) * unit if found and unit else 0.0
    if not 1 <= size < MOST:
        raise OptionError(f"{flag} takes a size such as 4GiB or 500MB, got {text!r}", option=keyword(flag))
    return int(size)


def named_size(size: int, *, up: bool = False) -> str:
    """Writes a number of bytes in the largest of B, KB, MB and GB of which it has one at least, as `4.29 GB`.

    Args:
        up: round up, for what is needed: who gives as much as was named gives enough.
    """
    if size < UNITS["KB"]:
        return f"{size} B"
    unit = max((name for name in ("KB", "MB", "GB") if UNITS[name] <= size), key=lambda name: UNITS[name])
    number = math.ceil(100 * size / UNITS[unit]) / 100 if up else size / UNITS[unit]
    return f"{number:,.2f} {unit}"
