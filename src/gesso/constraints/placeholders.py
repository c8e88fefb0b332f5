"""Defines special tokens inside constraints.

A special token has no text; in a constraint a byte stands for it that no UTF-8 text contains. An expression holds the
byte as the surrogate that Python's `surrogateescape` decodes it to, and no set of characters contains a surrogate.
"""

from collections.abc import Sequence

_FIRST = 0xF8
MOST_MARKS = 0x100 - _FIRST


def mark(number: int) -> str:
    """Says what stands for the special token of this number, in an expression's text."""
    assert 0 <= number < MOST_MARKS
    return chr(0xDC00 + _FIRST + number)


def has_half_characters(text: str) -> bool:
    """Tells whether a text holds surrogates: halves of characters, of which some stand for special tokens here."""
    return not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text)


def encode(text: str) -> bytes:
    """Returns the bytes of an expression's text, placeholders included."""
    return text.encode("utf-8", "surrogateescape")


def with_placeholders(texts: Sequence[bytes | None], special: Sequence[int]) -> list[bytes | None]:
    """Returns every token's bytes, the tokens `special` as placeholders 0, 1, ...; other such bytes are left out."""
    marked = [None if text and max(text) >= _FIRST else text for text in texts]
    for number, token in enumerate(special):
        marked[token] = encode(mark(number))
    return marked
