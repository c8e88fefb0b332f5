"""Finds sets of characters that only Unicode's tables know: general categories, and the two cases of letters.

Versions of Unicode differ in what is assigned. The narrow reading of a set has what is in it in this version, the wide
one whatever is not assigned here as well.
"""

import sys
import unicodedata
from collections import defaultdict
from functools import lru_cache

from gesso.constraints import charset
from gesso.constraints.charset import CharSet

_NAMES = {
    "Letter": "L", "Cased_Letter": "LC", "Uppercase_Letter": "Lu", "Lowercase_Letter": "Ll", "Titlecase_Letter": "Lt",
    "Modifier_Letter": "Lm", "Other_Letter": "Lo", "Mark": "M", "Combining_Mark": "M", "Nonspacing_Mark": "Mn",
    "Spacing_Mark": "Mc", "Enclosing_Mark": "Me", "Number": "N", "Decimal_Number": "Nd", "digit": "Nd",
    "Letter_Number": "Nl", "Other_Number": "No", "Punctuation": "P", "punct": "P", "Connector_Punctuation": "Pc",
    "Dash_Punctuation": "Pd", "Open_Punctuation": "Ps", "Close_Punctuation": "Pe", "Initial_Punctuation": "Pi",
    "Final_Punctuation": "Pf", "Other_Punctuation": "Po", "Symbol": "S", "Math_Symbol": "Sm", "Currency_Symbol": "Sc",
    "Modifier_Symbol": "Sk", "Other_Symbol": "So", "Separator": "Z", "Space_Separator": "Zs", "Line_Separator": "Zl",
    "Paragraph_Separator": "Zp", "Control": "Cc", "cntrl": "Cc", "Format": "Cf",
}  # fmt: skip
_SHORT = frozenset(_NAMES.values())


@lru_cache(maxsize=1)
def _categories() -> dict[str, CharSet]:
    codes: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for code in range(sys.maxunicode + 1):
        codes[unicodedata.category(chr(code))].append((code, code))
    return {name: charset.make(ranges) for name, ranges in codes.items()}


@lru_cache(maxsize=64)
def category(name: str) -> tuple[CharSet, CharSet] | None:
    """Returns the characters of a general category, by its short or long name, in the narrow and the wide reading; None
    where there is none of that name."""
    if name in ("Any", "ASCII"):
        chars = charset.ANY if name == "Any" else charset.make([(0, 0x7F)])
        return chars, chars
    short = _NAMES.get(name, name)
    if short not in _SHORT:
        return None
    known = _categories()
    kinds = ("Lu", "Ll", "Lt") if short == "LC" else tuple(kind for kind in known if kind.startswith(short))
    narrow = charset.union(*(known[kind] for kind in kinds))
    return narrow, charset.union(narrow, known["Cn"])


def _lower(c: str) -> str:
    """The small letter as one character: of a capital I with a dot Python's `lower` makes two, and its `re` the
    first."""
    return c.lower()[0]


@lru_cache(maxsize=1)
def _cased() -> list[tuple[str, frozenset[str], frozenset[str]]]:
    """Every letter with two cases, the other one where that is beyond doubt, and all that it may be taken for."""
    groups: dict[str, set[str]] = defaultdict(set)
    letters = [c for c in map(chr, range(sys.maxunicode + 1)) if c.lower() != c or c.upper() != c]
    for c in letters:
        for way in (_lower(c), c.upper(), c.casefold()):
            groups[way] |= {c, *(way if len(way) == 1 else "")}
    found = []
    for c in letters:
        lower, upper = _lower(c), c.upper()
        ways = ((lower, lower.upper()), (upper, upper.lower()))
        plain = {other for other, back in ways if len(other) == 1 and back == c}
        alike = {one for way in (lower, upper, c.casefold()) for one in groups[way]}
        alike |= {far for one in alike for way in (one.lower(), one.upper()) for far in groups[way]}
        found.append((c, frozenset(plain - {c}), frozenset(alike - {c})))
    return found


@lru_cache(maxsize=512)
def both_cases(chars: CharSet, wide: bool) -> CharSet:
    """Returns the characters and those that differ from them in case; with `wide` in any dialect's opinion."""
    more = [
        charset.of("".join(alike if wide else plain))
        for c, plain, alike in _cased()
        if any(low <= ord(c) <= high for low, high in chars)
    ]
    return charset.union(chars, *more)
