r"""Regular expressions, read into an `Expression`.

`parse` reads the dialect that Python's `re`, Rust's `regex` and ECMAScript have in common, and a pattern stands for the
whole text (`re.fullmatch`). Whatever matches here matches there: where they differ the narrower reading is taken.
`parse_search` reads ECMAScript's with the flag `u`, as JSON Schema has it: without `\a`, `\A`, `\z`, `\U`, `\x{H..}`,
`(?P<name>)` and `]`, `{`, `}` that stand for themselves, and `.` is no end of a line of any kind. A look-ahead outside
of groups is supported in both.

    literals  .  [a-z] [^a-z]  ( ) (?: ) (?P<name> ) (?<name> )  |  * + ? {n} {n,} {n,m}, lazy ones too  ^ $ \A \z
    \d \w \s   the ASCII ones;  \D \W \S   what no dialect counts as \d, \w, \s
    \n \r \t \f \v \a \xHH \uHHHH \UHHHHHHHH \x{H..} \u{H..}   and a backslash before any punctuation

`.` is any character but a newline. Everything else is refused by name: look-behind, back-references, possessive
quantifiers, atomic groups, flags, word boundaries, Unicode classes, set operations inside classes.
"""

from gesso.constraints import charset
from gesso.constraints.charset import CharSet
from gesso.constraints.expression import (
    EMPTY,
    Anchor,
    Chars,
    Expression,
    Repeat,
    Text,
    Whole,
    difference,
    intersection,
    sequence,
    union,
)
from gesso.errors import OptionError

MAX_REPEAT = 10_000
"""Of one counted repetition."""
MAX_DEPTH = 100
"""Of groups in groups."""

_ANYTHING = Repeat(Chars(charset.ANY))
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v", "a": "\a"}
_NARROW = {"d": charset.DIGIT, "w": charset.WORD, "s": charset.SPACE}
_REFUSED_GROUPS = {
    "=": "look-ahead", "!": "look-ahead", "<=": "look-behind", "<!": "look-behind", ">": "an atomic group",
    "P=": "a back-reference", "(": "a condition", "#": "a comment", "|": "a branch reset", "&": "a subroutine",
    "P>": "a subroutine", "R": "recursion",
}  # fmt: skip
_REFUSED_ESCAPES = {
    "b": "a word boundary", "B": "a word boundary", "p": "a Unicode class", "P": "a Unicode class",
    "k": "a back-reference", "g": "a back-reference", "G": "an anchor to the last match", "K": "a reset of the match",
    "R": "a line break of any kind", "X": "a grapheme", "h": "a class of blanks", "H": "a class of blanks",
    "N": "a named character", "c": "a control character", "Q": "quoting", "E": "quoting", "C": "a single byte",
    "0": "an octal number", "e": "an escape character", "Z": "an end that differs between dialects",
}  # fmt: skip


def parse(pattern: str) -> Expression:
    """The language of the texts that `pattern` matches as a whole.

    Raises:
        OptionError: the pattern is malformed, or has a feature that is not supported; it says which, and where.
    """
    return Whole(_Parser(pattern).parse(EMPTY))


def parse_search(pattern: str, wide: bool = False) -> Expression:
    """The language of the texts in which a pattern of ECMAScript (with the flag `u`) matches somewhere.

    Args:
        wide: takes the wider of two readings, for what must not match: whatever matches elsewhere matches here.
    """
    parser = _Parser(pattern, ecma=True, wide=wide)
    found = Whole(sequence(_ANYTHING, parser.parse(_ANYTHING)))
    if wide and parser.ends:
        # To some the end is also before a last newline.
        return union([found, sequence(_ANYTHING, Text("\n"))])
    return found


class _Parser:
    """Recursive descent; `at` is the next character's index."""

    def __init__(self, pattern: str, ecma: bool = False, wide: bool = False) -> None:
        self.pattern, self.ecma, self.wide = pattern, ecma, wide
        self.at = 0
        self.depth = 0
        self.ends = False
        """Whether an anchor to the end was seen."""

    def refuse(self, what: str, at: int | None = None) -> OptionError:
        place = self.at if at is None else at
        return OptionError(f"regular expression {self.pattern!r}: {what} at character {place}")

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

    def parse(self, tail: Expression) -> Expression:
        """The pattern and what may follow it."""
        if any("\ud800" <= c <= "\udfff" for c in self.pattern):
            raise OptionError("a regular expression holds half a character (a surrogate)")
        tree = self.alternatives(tail)
        if self.at < len(self.pattern):
            raise self.refuse("an unmatched )")
        return tree

    def alternatives(self, tail: Expression | None = None) -> Expression:
        options = [self.concatenation(tail)]
        while self.take("|"):
            options.append(self.concatenation(tail))
        return options[0] if len(options) == 1 else union(options)

    def concatenation(self, tail: Expression | None) -> Expression:
        """Parts in a row. `tail`, what may follow up to the end of the text, is known outside of all groups only: there
        a look-ahead is an intersection, or a difference, with all that follows it."""
        parts: list[Expression] = []
        while self.at < len(self.pattern) and self.pattern[self.at] not in "|)":
            if tail is not None and (self.sees("(?=") or self.sees("(?!")):
                return sequence(*parts, self.look_ahead(tail))
            parts.append(self.quantified())
        if tail is not None:
            parts += [tail] if tail != EMPTY or not parts else []
        return sequence(*parts) if parts else EMPTY

    def look_ahead(self, tail: Expression) -> Expression:
        begin = self.at
        negative = self.pattern[self.at + 2] == "!"
        self.at += 3
        self.depth += 1
        # What is taken away has to be read the other way.
        self.wide ^= negative
        ahead = sequence(Whole(self.alternatives()), _ANYTHING) if not self.sees(")") else _ANYTHING
        self.wide ^= negative
        self.depth -= 1
        if not self.take(")"):
            raise self.refuse("an unmatched (", begin)
        if self.quantifier() is not None:
            raise self.refuse("a repeated look-ahead", begin)
        inside = self.pattern[begin : self.at]
        if "$" in inside or "^" in inside.replace("[^", ""):
            ahead = self.anchored(inside, negative, begin)
        rest_begin = self.at
        rest = self.concatenation(tail)
        if "^" in self.pattern[rest_begin : self.at].replace("[^", "").replace("\\^", ""):
            raise self.refuse("a look-ahead before ^ is not supported", begin)
        return difference(Whole(rest), ahead) if negative else intersection(Whole(rest), ahead)

    def anchored(self, inside: str, negative: bool, begin: int) -> Expression:
        """A look-ahead with an end anchor: the text that it is matched against goes on to the end."""
        if "^" in inside.replace("[^", "").replace("\\^", ""):
            raise self.refuse("^ in a look-ahead is not supported", begin)
        inner = _Parser(inside[3:-1], self.ecma, self.wide ^ negative)
        found = Whole(inner.parse(_ANYTHING))
        return union([found, sequence(_ANYTHING, Text("\n"))]) if negative and inner.ends else found

    def quantified(self) -> Expression:
        begin = self.at
        part = self.atom()
        bounds = self.quantifier()
        if bounds is None:
            return part
        if isinstance(part, Anchor):
            raise self.refuse("a repeated anchor", begin)
        if self.take("+"):
            raise self.refuse("a possessive quantifier is not supported", self.at - 1)
        self.take("?")
        begin = self.at
        if self.quantifier() is not None:
            raise self.refuse("a quantifier after a quantifier", begin)
        return Repeat(part, *bounds)

    def quantifier(self) -> tuple[int, int | None] | None:
        if self.take("*"):
            return 0, None
        if self.take("+"):
            return 1, None
        if self.take("?"):
            return 0, 1
        begin = self.at
        if not self.take("{"):
            return None
        least = self.number()
        most = least
        if self.take(","):
            most = self.number()
            if least is None and most is not None and self.sees("}"):
                raise self.refuse("{,n} means different things in different dialects, write {0,n}", begin)
        elif least is None:
            self.at = begin
            return None
        if least is None or not self.take("}"):
            self.at = begin
            return None
        if most is not None and most < least:
            raise self.refuse("a repetition whose most is less than its least", begin)
        if max(least, most or 0) > MAX_REPEAT:
            raise self.refuse(f"a repetition of more than {MAX_REPEAT}", begin)
        return least, most

    def number(self) -> int | None:
        begin = self.at
        while self.at < len(self.pattern) and self.pattern[self.at] in "0123456789":
            self.at += 1
        return int(self.pattern[begin : self.at][:9]) if self.at > begin else None

    def atom(self) -> Expression:
        begin = self.at
        c = self.next("the pattern")
        if c == "(":
            return self.group(begin)
        if c == "[":
            return Chars(self.char_class(begin))
        if c == ".":
            return Chars(charset.ANY_BUT_LINE_ENDS if self.ecma and not self.wide else charset.ANY_BUT_NEWLINE)
        if c in "^$":
            self.ends |= c == "$"
            return Anchor(at_end=c == "$")
        if c == "\\":
            if not self.ecma and self.take("A"):
                return Anchor(at_end=False)
            if not self.ecma and self.take("z"):
                return Anchor(at_end=True)
            found = self.escape(begin)
            return Text(found) if isinstance(found, str) else Chars(found[self.wide])
        if self.ecma and c in "{}]":
            raise self.refuse(f"a {c} that stands for itself is written \\{c}", begin)
        if c in "*+?":
            raise self.refuse("a quantifier with nothing to repeat", begin)
        return Text(c)

    def group(self, begin: int) -> Expression:
        if self.take("?"):
            for mark in sorted(_REFUSED_GROUPS, key=len, reverse=True):
                if self.sees(mark):
                    raise self.refuse(f"{_REFUSED_GROUPS[mark]} is not supported", begin)
            if (not self.ecma and self.take("P<")) or self.take("<"):
                end = self.pattern.find(">", self.at)
                if not self.pattern[self.at : end].isidentifier():
                    raise self.refuse("a group without a proper name", begin)
                self.at = end + 1
            elif not self.take(":"):
                raise self.refuse("a flag is not supported", begin)
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.refuse(f"more than {MAX_DEPTH} groups in each other", begin)
        tree = self.alternatives()
        self.depth -= 1
        if not self.take(")"):
            raise self.refuse("an unmatched (", begin)
        return tree

    def escape(self, begin: int) -> str | tuple[CharSet, CharSet]:
        """What follows a backslash: a character, or a class in its narrow and its wide reading."""
        c = self.next("an escape")
        if self.ecma and c in "aUAz":
            raise self.refuse(f"the escape \\{c} is not known to ECMAScript", begin)
        if self.ecma and c == "c":
            letter = self.next("an escape")
            if not (letter.isascii() and letter.isalpha()):
                raise self.refuse("\\c without a letter", begin)
            return chr(ord(letter) % 32)
        if self.ecma and c == "0" and not (self.at < len(self.pattern) and self.pattern[self.at].isdigit()):
            return "\0"
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
            end = self.pattern.find("}", self.at)
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
        """A class in brackets. In a negated one every escape is read the wide way, so that the whole stays narrow."""
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
        chars = charset.union(*parts)
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
