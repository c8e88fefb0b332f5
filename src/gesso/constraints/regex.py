r"""Reads regular expressions into an `Expression`.

`parse` reads the dialect that Python's `re`, Rust's `regex` and ECMAScript have in common, and a pattern stands for the
whole text (`re.fullmatch`). Whatever matches here matches there: where they differ the narrower reading is taken.
`parse_search` reads ECMAScript's with the flag `u`, as JSON Schema has it: without `\a`, `\A`, `\z`, `\Z`, `\U`,
`\x{H..}`, `(?P<name>)` and `]`, `{`, `}` that stand for themselves, and `.` is no end of a line of any kind.
Look-aheads and word boundaries are supported in both, in groups where these can be taken apart (see `regex_groups`).

    literals  .  [a-z] [^a-z]  ( ) (?: ) (?P<name> ) (?<name> )  |  * + ? {n} {n,} {n,m}, lazy ones too
    ^ $ \A \z \Z   the begin and the end of the whole text
    \d \w \s   the ASCII ones;  \D \W \S   what no dialect counts as \d, \w, \s
    \n \r \t \f \v \a \xHH \uHHHH \UHHHHHHHH \x{H..} \u{H..}   and a backslash before any punctuation
    (?=..) (?!..) \b \B   outside of groups, and in groups that are repeated four times at most; \b \B also in a
        look-ahead at the begin of the text
    \p{L} \P{Letter} \p{gc=Lu}   general categories, of Rust's and ECMAScript's dialects
    (?i) (?s) (?is) at the beginning, (?i: )   in Python's dialect

`.` is any character but a newline. Everything else is refused by name: look-behind, back-references, possessive
quantifiers, atomic groups, other flags, word boundaries and look-aheads in groups that may be repeated often, scripts,
set operations inside classes.
"""

from gesso.constraints import charset
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
from gesso.constraints.measures import holds_anchor, may_be_empty
from gesso.constraints.placeholders import has_half_characters
from gesso.constraints.regex_groups import closing
from gesso.constraints.regex_repeats import Repeats
from gesso.errors import OptionError

MAX_BOUNDARIES = 6
"""Word boundaries at most, each of which doubles the work."""
MAX_DEPTH = 100
"""Depth of groups in groups, at most."""

_ANYTHING = Repeat(Chars(charset.ANY))
_REFUSED_GROUPS = {
    **dict.fromkeys("=!", "a look-ahead in a group that cannot be taken apart"),
    "<=": "look-behind", "<!": "look-behind", ">": "an atomic group", "P=": "a back-reference", "(": "a condition",
    "#": "a comment", "|": "a branch reset", "&": "a subroutine", "P>": "a subroutine", "R": "recursion",
}  # fmt: skip


def parse(pattern: str, part: bool = False) -> Expression:
    """Returns the language of the texts that `pattern` matches as a whole.

    Args:
        pattern: the regular expression.
        part: it is of a part of a text, a terminal of a grammar: what stands around that, an assertion at an edge or in
            a group would speak of, and is refused.

    Raises:
        OptionError: the pattern is malformed, or has a feature that is not supported; it says which, and where.
    """
    found = Whole(_Parser(pattern, part=part).parse(EMPTY))
    # Whether an empty text has a place that is no boundary, dialects do not agree on.
    return difference(found, EMPTY) if "\\B" in pattern else found


def parse_search(pattern: str, wide: bool = False) -> Expression:
    """Returns the language of the texts in which a pattern of ECMAScript (with the flag `u`) matches somewhere.

    Args:
        wide: takes the wider of two readings, for what must not match: whatever matches elsewhere matches here.
    """
    parser = _Parser(pattern, ecma=True, wide=wide)
    if boundaries(pattern):
        # What stands before the match has a say in whether it begins with a word.
        found: Expression = Whole(parser.parse(_ANYTHING, _ANYTHING))
    else:
        found = Whole(sequence(_ANYTHING, parser.parse(_ANYTHING)))
    if wide and parser.ends:
        # To some the end is also before a last newline.
        return union([found, sequence(_ANYTHING, Text("\n"))])
    return found


def boundaries(pattern: str) -> int:
    """Counts what may be boundaries of words in a pattern."""
    return pattern.count("\\b") + pattern.count("\\B")


class _Parser(Repeats):
    """Recursive descent; `at` is the next character's index."""

    looked_ahead = False
    """Whether what is read follows a look-ahead."""
    bounded = 0
    """Boundaries of words before what is read."""

    def parse(self, tail: Expression, head: Expression = EMPTY) -> Expression:
        """The pattern, what may follow it, and what may stand before it."""
        if has_half_characters(self.pattern):
            raise OptionError("a regular expression holds half a character (a surrogate)")
        tree = self.alternatives(tail, head)
        if self.at < len(self.pattern):
            raise self.refuse("an unmatched )")
        return tree

    def alternatives(self, tail: Expression | None = None, head: Expression = EMPTY) -> Expression:
        options = [self.concatenation(tail, head)]
        while self.take("|"):
            options.append(self.concatenation(tail, head))
        return options[0] if len(options) == 1 else union(options)

    def concatenation(
        self, tail: Expression | None, head: Expression = EMPTY, behind_word: bool = False, begins: bool = False
    ) -> Expression:
        """Parts in a row. `tail`, what may follow up to the end of the text, is known outside of all groups only: there
        a look-ahead is an intersection, or a difference, with all that follows it, and a boundary of words one with
        what stands before it, `head` and all, and with what follows. `behind_word` says what is before all that, and
        `begins` that nothing is."""
        parts: list[Expression] = [] if head == EMPTY else [head]
        while self.at < len(self.pattern) and self.pattern[self.at] not in "|)":
            if tail is not None and (self.sees("(?=") or self.sees("(?!")):
                at_begin = parts[-1:] == [Anchor(at_end=False)] or (begins and not parts) or self.begins()
                return sequence(*parts, self.look_ahead(tail, at_begin))
            if tail is not None and (self.sees("\\b") or self.sees("\\B")):
                return self.boundary(sequence(*parts) if parts else EMPTY, tail, behind_word)
            parts.append(self.quantified())
        if tail is not None:
            parts += [tail] if tail != EMPTY or not parts else []
        return sequence(*parts) if parts else EMPTY

    def begins(self) -> bool:
        """Tells whether what is read, outside of all groups, is where the text begins."""
        return not self.ecma and (self.at == 0 or self.pattern[self.at - 1] == "|")

    def boundary(self, before: Expression, tail: Expression, behind_word: bool) -> Expression:
        """A boundary of words, or a place that is none, between what was read and what follows up to the end."""
        begin = self.at
        negative = self.pattern[begin + 1] == "B"
        self.at += 2
        if self.looked_ahead:
            raise self.refuse("a word boundary behind a look-ahead is not supported", begin)
        if self.bounded >= MAX_BOUNDARIES:
            raise self.refuse(f"more than {MAX_BOUNDARIES} word boundaries", begin)
        if self.quantifier() is not None:
            raise self.refuse("a repeated anchor", begin)
        if holds_anchor(before, at_end=True):
            raise self.refuse("a word boundary behind $ is not supported", begin)
        word, other = self.words()
        rest_begin, options = self.at, []
        self.bounded += 1
        for after_word in (False, True):
            chars = sequence(_ANYTHING, Chars(word if after_word else other))
            left = union([chars, EMPTY]) if after_word == behind_word else chars
            self.at = rest_begin
            rest = self.concatenation(tail, behind_word=after_word)
            if holds_anchor(rest, at_end=False):
                raise self.refuse("a word boundary before ^ is not supported", begin)
            if self.part and (may_be_empty(before) or may_be_empty(rest)):
                raise self.refuse("a word boundary at an edge of what a terminal matches is not supported", begin)
            right = sequence(Chars(word), _ANYTHING)
            if after_word != negative:
                right = union([sequence(Chars(other), _ANYTHING), EMPTY])
            options.append(sequence(intersection(Whole(before), left), intersection(Whole(rest), right)))
        self.bounded -= 1
        return union(options)

    def look_ahead(self, tail: Expression, at_begin: bool) -> Expression:
        begin = self.at
        negative = self.pattern[self.at + 2] == "!"
        self.at += 3
        self.depth += 1
        end = closing(self.pattern, begin)
        if at_begin and not self.part and end is not None and boundaries(self.pattern[begin + 3 : end]):
            # It is known what stands before: nothing.
            ahead = self.by_itself(self.pattern[begin + 3 : end], negative)
            self.at = end + 1
            self.depth -= 1
        else:
            # What is taken away has to be read the other way.
            self.wide ^= negative
            inner = EMPTY if self.sees(")") else self.alternatives()
            self.wide ^= negative
            self.depth -= 1
            if not self.take(")"):
                raise self.refuse("an unmatched (", begin)
            if holds_anchor(inner, at_end=False) and not at_begin:
                raise self.refuse("^ in a look-ahead that is not at the begin is not supported", begin)
            if holds_anchor(inner, at_end=True):
                ahead = self.by_itself(self.pattern[begin + 3 : self.at - 1], negative)
            else:
                ahead = sequence(Whole(inner), _ANYTHING)
        if self.quantifier() is not None:
            raise self.refuse("a repeated look-ahead", begin)
        self.looked_ahead = True
        rest = self.concatenation(tail, begins=at_begin)
        self.looked_ahead = False
        if holds_anchor(rest, at_end=False) and not at_begin:
            raise self.refuse("a look-ahead before ^ is not supported", begin)
        if self.part and may_be_empty(rest):
            raise self.refuse("a look-ahead at the end of what a terminal matches is not supported", begin)
        return difference(Whole(rest), ahead) if negative else intersection(Whole(rest), ahead)

    def by_itself(self, inside: str, negative: bool) -> Expression:
        """A look-ahead with an end anchor or a word boundary: the text that it is matched against goes on to the
        end."""
        inner = _Parser(inside, self.ecma, self.wide ^ negative)
        inner.ignores_case, inner.takes_all = self.ignores_case, self.takes_all
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

    def atom(self) -> Expression:
        begin = self.at
        c = self.next("the pattern")
        if c == "(":
            return self.group(begin)
        if c == "[":
            return Chars(self.char_class(begin))
        if c == "." and self.takes_all:
            return Chars(charset.ANY)
        if c == ".":
            return Chars(charset.ANY_BUT_LINE_ENDS if self.ecma and not self.wide else charset.ANY_BUT_NEWLINE)
        if c in "^$":
            self.ends |= c == "$"
            return Anchor(at_end=c == "$")
        if c == "\\":
            if not self.ecma and self.take("A"):
                return Anchor(at_end=False)
            if not self.ecma and (self.sees("z") or self.sees("Z")):
                self.ends |= self.take("Z")
                self.take("z")
                return Anchor(at_end=True)
            found = self.escape(begin)
            return self.letter(found) if isinstance(found, str) else Chars(self.folded(found[self.wide]))
        if self.ecma and c in "{}]":
            raise self.refuse(f"a {c} that stands for itself is written \\{c}", begin)
        if c in "*+?":
            raise self.refuse("a quantifier with nothing to repeat", begin)
        return self.letter(c)

    def group(self, begin: int) -> Expression:
        before = self.ignores_case, self.takes_all
        flags = not self.ecma and self.flags(begin)
        if flags and self.take(")"):
            return EMPTY
        if not flags and self.take("?"):
            for mark in sorted(_REFUSED_GROUPS, key=len, reverse=True):
                if self.sees(mark):
                    raise self.refuse(f"{_REFUSED_GROUPS[mark]} is not supported", begin)
            if (not self.ecma and self.take("P<")) or self.take("<"):
                end = self.pattern.find(">", self.at)
                if end < 0 or not self.pattern[self.at : end].isidentifier():
                    raise self.refuse("a group without a proper name", begin)
                self.at = end + 1
            elif not self.take(":"):
                raise self.refuse("a flag is not supported", begin)
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.refuse(f"more than {MAX_DEPTH} groups in each other", begin)
        tree = self.alternatives()
        self.depth -= 1
        self.ignores_case, self.takes_all = before
        if not self.take(")"):
            raise self.refuse("an unmatched (", begin)
        return tree
