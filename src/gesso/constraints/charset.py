"""Defines sets of Unicode characters as sorted ranges of code points, and their spelling in UTF-8.

Surrogates are in no set: they are no characters and have no UTF-8.
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import pairwise

import numpy as np

CharSet = tuple[tuple[int, int], ...]
"""Inclusive ranges of code points, sorted, neither overlapping nor adjacent."""

ByteRange = tuple[int, int]
"""Inclusive."""

_SURROGATES = (0xD800, 0xDFFF)
_LAST = 0x10FFFF
_LAST_OF_LENGTH = (0x7F, 0x7FF, 0xFFFF, _LAST)


def make(ranges: Iterable[tuple[int, int]]) -> CharSet:
    """Returns the set of all characters in `ranges`."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        elif low <= high:
            merged.append((low, high))
    return tuple(part for low, high in merged for part in _around_surrogates(low, high))


def _around_surrogates(low: int, high: int) -> Iterator[tuple[int, int]]:
    first, last = _SURROGATES
    if low < first:
        yield low, min(high, first - 1)
    if high > last:
        yield max(low, last + 1), high


def of(characters: str) -> CharSet:
    """Returns the set of the characters of a text."""
    return make((ord(c), ord(c)) for c in characters)


def union(*sets: CharSet) -> CharSet:
    return make(part for chars in sets for part in chars)


def complement(chars: CharSet) -> CharSet:
    bounds = [(-1, -1), *chars, (_LAST + 1, _LAST + 1)]
    return make((before[1] + 1, after[0] - 1) for before, after in pairwise(bounds))


def intersection(one: CharSet, other: CharSet) -> CharSet:
    return complement(union(complement(one), complement(other)))


def difference(one: CharSet, other: CharSet) -> CharSet:
    return complement(union(complement(one), other))


ANY = complement(())
"""Every character."""
ANY_BUT_NEWLINE = complement(of("\n"))
ANY_BUT_LINE_ENDS = complement(of("\n\r\u2028\u2029"))
DIGIT = of("0123456789")
WORD = make([(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)])
SPACE = of(" \t\n\r\f\v")


@lru_cache(maxsize=3)
def wide(letter: str) -> CharSet:
    r"""Returns all that any common dialect counts as `\d`, `\w` or `\s`, given as that letter."""
    codes = np.arange(_LAST + 1, dtype="<u4")
    codes[_SURROGATES[0] : _SURROGATES[1] + 1] = 0
    # Python's own classes are str.isdecimal, str.isalnum with _, and str.isspace.
    runs = re.finditer(rf"\{letter}+", codes.tobytes().decode("utf-32-le"))
    found = make((run.start(), run.end() - 1) for run in runs)
    return union(found, of("\ufeff")) if letter == "s" else found


def utf8(chars: CharSet) -> Iterator[tuple[ByteRange, ...]]:
    """Yields sequences of byte ranges that together spell exactly the characters of a set, each once."""
    for low, high in chars:
        start = low
        for last in _LAST_OF_LENGTH:
            if start <= min(high, last):
                yield from _same_length(chr(start).encode(), chr(min(high, last)).encode())
                start = last + 1


def _same_length(low: bytes, high: bytes) -> Iterator[tuple[ByteRange, ...]]:
    if len(low) == 1:
        yield ((low[0], high[0]),)
        return
    least, most = b"\x80" * (len(low) - 1), b"\xbf" * (len(low) - 1)
    if low[0] == high[0]:
        yield from (((low[0], low[0]), *rest) for rest in _same_length(low[1:], high[1:]))
        return
    first, last = low[0], high[0]
    if low[1:] != least:
        yield from (((first, first), *rest) for rest in _same_length(low[1:], most))
        first += 1
    if high[1:] != most:
        last -= 1
    if first <= last:
        yield ((first, last), *(((0x80, 0xBF),) * (len(low) - 1)))
    if high[1:] != most:
        yield from (((high[0], high[0]), *rest) for rest in _same_length(least, high[1:]))
