"""Prints what a command puts out, for any encoding that a terminal or a pipe may have."""

import json
import sys
from typing import Any


def print_json(value: Any) -> None:
    """Prints one line of JSON; characters are written as they are where the encoding has all of them."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    print(json.dumps(value, ensure_ascii=not encoding.lower().startswith("utf")))


def format_bytes(number: int, digits: int = 1) -> str:
    """Writes a number of bytes, with so many digits behind the point."""
    return f"{number / 1e9:,.{digits}f} GB" if number >= 1e9 else f"{number / 1e6:,.{digits}f} MB"


def print_anything() -> None:
    """Lets standard output print every text: what its encoding lacks is written as an escape such as `\\xb7`."""
    if sys.stdout is not None and getattr(sys.stdout, "errors", None) == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
