"""Prints what a command puts out, for any encoding that a terminal or a pipe may have."""

import json
import os
import re
import sys
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

NARROWEST = 60
"""Columns that a table is laid out for at least, where it does not say itself how many it needs."""
_HALVES = re.compile("[\ud800-\udfff]")
"""Half characters, which stand for bytes of a file's name that are no UTF-8."""


def print_json(value: Any) -> None:
    """Prints one line of JSON; characters are written as they are where the encoding has all of them."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    line = json.dumps(value, ensure_ascii=False)
    has_all = encoding.lower().startswith("utf") and not _HALVES.search(line)
    print(line if has_all else json.dumps(value))


def write_exactly(data: bytes) -> None:
    """Writes bytes to standard output as they are: no line end is translated, and none is added."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def note(line: str) -> None:
    """Prints a line for the person on standard error: no part of the output, and where nothing takes it, it is lost."""
    if sys.stderr is None:
        return
    try:
        print(line, file=sys.stderr)
    except OSError:
        drop(sys.stderr)


def drop(stream: TextIO) -> None:
    """Gives the interpreter a standard stream that it can close, where nobody takes what was written to it."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, stream.fileno())
    os.close(nothing)


def format_bytes(number: int, digits: int = 1) -> str:
    """Writes a number of bytes, with so many digits behind the point."""
    return f"{number / 1e9:,.{digits}f} GB" if number >= 1e9 else f"{number / 1e6:,.{digits}f} MB"


def print_table(console: "Console", table: "Table", least: int = NARROWEST) -> None:
    """Prints a table. A narrow terminal wraps its lines: columns that had to share its width would lose their cells.

    Args:
        least: columns that it is laid out for at least.
    """
    from rich.text import Text

    if console.width >= least:
        console.print(table, soft_wrap=False)
        return
    for parts in console.render_lines(table, console.options.update(width=least)):
        line = Text.assemble(*((part.text, part.style or "") for part in parts))
        line.rstrip()
        console.print(line, soft_wrap=True)


def open_closed_streams() -> None:
    """Opens those standard streams on nothing that were closed when the process started: input is empty, and what is
    printed is lost."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            nothing = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(nothing, mode, encoding="utf-8", closefd=False))


def print_anything() -> None:
    """Lets standard output print every text: what its encoding lacks is written as an escape such as `\\xb7`."""
    if sys.stdout is not None and getattr(sys.stdout, "errors", None) == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
