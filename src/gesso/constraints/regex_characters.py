"""Says what stands for a character in a regular expression: itself, an escape, a class in brackets, a Unicode class;
and the flags, on which that depends."""

import re

from gesso.constraints import charset, unicode_sets
from gesso.constraints.charset import CharSet
from gesso.constraints.expression import Chars, Expression, Text
from gesso.constraints.regex_groups import Ungrouped, ungrouped
from gesso.errors import OptionError

MAX_SHOWN = 200
"""Characters of a pattern that a message shows."""
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v", "a": "\a"}
_NARROW = {"d": charset.DIGIT, "w": charset.WORD, "s": charset.SPACE}
_REFUSED_ESCAPES = {
    "b": "a word boundary in a group that cannot be taken apart",
    "B": "a word boundary in a group that cannot be taken apart",
    "k": "a back-reference", "g": "a back-reference", "G": "an anchor to the last match", "K": "a reset of the match",
    "R": "a line break of any kind", "X": "a grapheme", "h": "a class of blanks", "H": "a class of blanks",
    "N": "a named character", "c": "a control character", "Q": "quoting", "E": "quoting", "C": "a single byte",
    "0": "an octal number", "e": "an escape character",
}  # fmt: skip


class Characters:
    """Holds a pattern that is read from left to right; `at` is the next character's index."""

    def __init__(self, pattern: str, ecma: bool = False, wide: bool = False, part: bool = False) -> None:
        """
        Args:
            pattern: the regular expression.
            ecma: reads ECMAScript's dialect with the flag `u`.
            wide: takes the wider of two readings.
            part: it is of a part of a text, and does not see what stands around that.
        """
        self.shown, self.ecma, self.wide, self.part = pattern, ecma, wide, part
        found = Ungrouped(pattern, tuple(range(len(pattern) + 1))) if part else ungrouped(pattern, ecma)
        self.pattern, self._places = found.text, found.places
        self.at = 0
        self.depth = 0
        self.ends = False
        """Whether an anchor to the end was seen."""
        self.ignores_case = False
        self.takes_all = False
        """Whether `.` is any character, ends of lines too."""

    def refuse(self, what: str, at: int | None = None) -> OptionError:
        place = self._places[min(self.at if at is None else at, len(self.pattern))]
        return OptionError(f"regular expression {self.shown!r:.{MAX_SHOWN}}: {what} at character {place}")

    def sees(self, text: str) -> bool:
        return self.pattern.startswith(text, self.at)

    def take(self, text: str) -> bool:
        if not self.sees(text):
            return False
        self.at += len(text)
        return True

    def next(self, inside: str) -> str:
        if self.at >= len(self.pattern):
            raise self.refuse(f"{inside} is not finished")
        self.at += 1
        return self.pattern[self.at - 1]

    def folded(self, chars: CharSet, negated: bool = False) -> CharSet:
        """Returns the characters, where case is ignored in both cases."""
        return unicode_sets.both_cases(chars, negated != self.wide) if self.ignores_case else chars

    def flags(self, begin: int) -> bool:
        """Takes the flags of a group, which are in force inside of it; those at the beginning are of all."""
        start = end = self.at + 1
        while end < len(self.pattern) and self.pattern[end] in "is":
            end += 1
        if not self.sees("?") or end == start or end == len(self.pattern) or self.pattern[end] not in ":)":
            return False
        alone = self.pattern[end] == ")"
        if alone and begin:
            raise self.refuse("flags that are not at the beginning", begin)
        self.ignores_case |= "i" in self.pattern[start:end]
        self.takes_all |= "s" in self.pattern[start:end]
        self.at = end + (not alone)
        return True

    def letter(self, c: str) -> Expression:
        """Returns one character, in both cases where that is asked for."""
        chars = self.folded(charset.of(c))
        return Text(c) if chars == charset.of(c) else Chars(chars)

    def words(self) -> tuple[CharSet, CharSet]:
        """Returns what words are made of and what is between them: what is one or the other in all dialects, or else in
        any."""
        narrow, wide = _NARROW["w"], charset.wide("w")
        return (wide, charset.complement(narrow)) if self.wide else (narrow, charset.complement(wide))

    def unicode_class(self, begin: int, negated: bool) -> tuple[CharSet, CharSet]:
        """Says what follows `\\p`, or `\\P`, in its narrow and its wide reading."""
        match = re.compile(r"\{([A-Za-z_0-9]+)(?:=([A-Za-z_0-9]+))?\}").match(self.pattern, self.at)
        if match is None:
            raise self.refuse("a Unicode class without a name", begin)
        self.at = match.end()
        name = match[2] if match[1] in ("General_Category", "gc") else match[1] if match[2] is None else ""
        if (found := unicode_sets.category(name or "")) is None:
            raise self.refuse(f"the Unicode class {match[0]} is not supported", begin)
        if not negated:
            return found
        narrow, wide = found
        # To some dialects what differs in case only is not in it either.
        wide = unicode_sets.both_cases(wide, wide=True) if self.ignores_case else wide
        return charset.complement(wide), charset.complement(narrow)

    def escape(self, begin: int) -> str | tuple[CharSet, CharSet]:
        """Says what follows a backslash: a character, or a class in its narrow and its wide reading."""
        c = self.next("an escape")
        if self.ecma and c in "aUAzZ":
            raise self.refuse(f"the escape \\{c} is not known to ECMAScript", begin)
        if self.ecma and c == "c":
            letter = self.next("an escape")
            if not (letter.isascii() and letter.isalpha()):
                raise self.refuse("\\c without a letter", begin)
            return chr(ord(letter) % 32)
        if self.ecma and c == "0" and not (self.at < len(self.pattern) and self.pattern[self.at].isdigit()):
            return "\0"
        if c in "pP":
            return self.unicode_class(begin, negated=c == "P")
        if c in _CONTROLS:
            return _CONTROLS[c]
        if c in "xuU":
            return self.code(c, begin)
        if c in "dws":
            return _NARROW[c], charset.wide(c)
        if c in "DWS":
            return charset.complement(charset.wide(c.lower())), charset.complement(_NARROW[c.lower()])
        if c in _REFUSED_ESCAPES:
            raise self.refuse(f"{_REFUSED_ESCAPES[c]} (\\{c}) is not supported", begin)
        if c.isdigit():
            raise self.refuse("a back-reference is not supported", begin)
        if c.isalpha():
            raise self.refuse(f"the escape \\{c} is not known", begin)
        return c

    def code(self, kind: str, begin: int) -> str:
        if not (self.ecma and kind == "x") and self.take("{"):
            if (end := self.pattern.find("}", self.at)) < 0:
                raise self.refuse("a character's number is not finished", begin)
            digits, self.at = self.pattern[self.at : end], end + 1
        else:
            width = {"x": 2, "u": 4, "U": 8}[kind]
            digits, self.at = self.pattern[self.at : self.at + width], self.at + width
            if len(digits) < width:
                raise self.refuse("a character's number is not finished", begin)
        try:
            value = int(digits, 16) if digits.isalnum() else -1
        except ValueError:
            value = -1
        if not 0 <= value <= 0x10FFFF or 0xD800 <= value <= 0xDFFF:
            raise self.refuse(f"{digits!r} is no character's number", begin)
        return chr(value)

    def char_class(self, begin: int) -> CharSet:
        """Returns a class in brackets. In a negated one every escape is read the wide way, so that the whole stays
        narrow."""
        negated = self.take("^")
        parts: list[CharSet] = []
        if self.take("]"):
            if self.ecma:
                raise self.refuse("a class that begins with ] is written [\\]", begin)
            parts.append(charset.of("]"))
        while not self.take("]"):
            low = self.class_item(begin, negated)
            if not isinstance(low, str):
                parts.append(low)
                continue
            self.refuse_set_operation()
            if not self.sees("-") or self.sees("-]"):
                parts.append(charset.of(low))
                continue
            self.at += 1
            high = self.class_item(begin, negated)
            if not isinstance(high, str) or high < low:
                raise self.refuse("a bad range in a class", begin)
            parts.append(charset.make([(ord(low), ord(high))]))
        chars = self.folded(charset.union(*parts), negated)
        return charset.complement(chars) if negated else chars

    def refuse_set_operation(self) -> None:
        for mark in ("&&", "--", "~~", "||"):
            if self.sees(mark):
                raise self.refuse(f"the set operation {mark} is not supported")

    def class_item(self, begin: int, negated: bool) -> str | CharSet:
        self.refuse_set_operation()
        at = self.at
        c = self.next("a class ([)") if self.at < len(self.pattern) else None
        if c is None:
            raise self.refuse("an unmatched [", begin)
        if c == "[":
            raise self.refuse("a [ inside a class means different things in different dialects, write \\[", at)
        if c != "\\":
            return c
        if self.take("b"):
            return "\b"
        found = self.escape(at)
        return found if isinstance(found, str) else found[negated != self.wide]
