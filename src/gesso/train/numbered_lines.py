"""Reads files of JSON lines line by line, and says of a fault which line it is in."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from gesso.errors import DataError, TextError

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""May stand before the first line of a file."""


def numbered_lines(file: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yields the lines that are not blank, each with its number, counted from 1; their ends and a byte order mark are
    left out."""
    for number, raw in enumerate(file, 1):
        line = raw.removeprefix(BYTE_ORDER_MARK) if number == 1 else raw
        if line.strip():
            yield number, line.rstrip(b"\r\n")


@contextmanager
def told_with(place: str) -> Iterator[None]:
    """Puts a place, such as `data.jsonl, line 3`, before what is told of a line that cannot be used.

    Raises:
        DataError: that there is such a line.
    """
    try:
        yield
    except (DataError, TextError) as error:
        raise DataError(f"{place}: {error}", hint=error.hint) from None
