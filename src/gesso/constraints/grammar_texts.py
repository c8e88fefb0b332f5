r"""Reads texts in quotes and classes in brackets, as grammars write them.

Escapes of a text are those of JSON, `\xHH` and `\UHHHHHHHH`; GBNF's has `\[` and `\]` too.
"""

import json
import re

_ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|U([0-9A-Fa-f]{8})|(.))")
_ITEM = re.compile(r"\\x[0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8}|\\.|[^\\]", re.DOTALL)


def unquoted(written: str, gbnf: bool) -> str:
    """Returns what a text in quotes stands for.

    Raises:
        ValueError: an escape is not known, or half a character (a surrogate) is left.
    """

    def plain(escape: re.Match[str]) -> str:
        code, character = escape[1] or escape[2], escape[3]
        if code is not None:
            return json.dumps(chr(int(code, 16)))[1:-1]
        return character if gbnf and character in "[]" else escape[0]

    try:
        text = str(json.loads(_ESCAPE.sub(plain, written), strict=False))
    except OverflowError as error:
        raise ValueError(str(error)) from None
    text.encode()
    return text


def gbnf_class(written: str) -> str:
    """Returns GBNF's class in brackets as a regular expression's: in GBNF only `^` at the beginning, `-` between two
    characters, the backslash and `]` mean more than themselves."""
    negated = written.startswith("[^")
    items = _ITEM.findall(written[1 + negated : -1])
    parts, at = [], 0
    while at < len(items):
        parts.append(_itself(items[at]))
        if items[at + 1 : at + 2] == ["-"] and at + 2 < len(items):
            parts += ["-", _itself(items[at + 2])]
            at += 2
        at += 1
    return "[" + "^" * negated + "".join(parts) + "]"


def _itself(item: str) -> str:
    """A character that is not escaped, so that it stands for itself."""
    return f"\\{item}" if len(item) == 1 and item.isascii() and not item.isalnum() and item.isprintable() else item
