"""Turns rules of a grammar into expressions."""

from collections import Counter

from gesso.constraints import charset, unicode_sets
from gesso.constraints.expression import (
    EMPTY,
    NEVER,
    Chars,
    Expression,
    Repeat,
    Text,
    repeat,
    sequence,
    union,
)
from gesso.constraints.grammar_texts import gbnf_class, unquoted
from gesso.constraints.grammar_tokens import Rule, Statements, Token
from gesso.constraints.regex import MAX_DEPTH, parse
from gesso.constraints.regex_repeats import MAX_REPEAT
from gesso.errors import OptionError

MAX_READ = 100_000
"""Parts that are read at most; a rule is read once for each way that it may still stand in itself."""
MAX_PARTS = 10_000_000
"""Parts of the start rule at most, once the others are put in."""


class Rules:
    """Holds rules and what they have become; an expression goes with the number of its parts."""

    def __init__(self, statements: Statements, imported: dict[str, Expression], deep: int) -> None:
        """
        Args:
            deep: how many of one rule may stand in each other, where it is neither at the beginning nor at the end.
        """
        self.deep = deep
        self.gbnf, self.rules, self.imported = statements.gbnf, statements.rules, imported
        self.known: dict[tuple[str, tuple[tuple[str, int], ...]], tuple[Expression, int]] = {}
        """Rules that were read, by how often those that they lead to are around them already."""
        self.led: dict[str, tuple[str, ...]] = {}
        self.read = 0
        self.ignored: Expression = NEVER
        if statements.ignored:
            bodies = [_Body(self, "%ignore", rule, ("%ignore",), {}).parse()[0] for rule in statements.ignored]
            self.ignored = union(bodies)

    def language(self, start: str) -> Expression:
        """Returns the texts of a rule, with what is ignored before them."""
        body = self.rule(start, ())[0]
        return sequence(Repeat(self.ignored), body) if self.ignored != NEVER else body

    def rule(self, name: str, path: tuple[str, ...]) -> tuple[Expression, int]:
        """Returns the texts of a rule that `path` leads to, and the number of its parts."""
        if path.count(name) >= self.deep:
            return NEVER, 0
        if len(path) >= MAX_DEPTH:
            raise OptionError(f"grammar: more than {MAX_DEPTH} rules lead to each other, down to {name!r}")
        # Of the way here only the rules matter that may come again.
        led = Counter(path)
        key = name, tuple((other, led[other]) for other in self.leads_to(name) if other in led)
        if key not in self.known:
            self.known[key] = _Body(self, name, self.rules[name], (*path, name), {}).parse()
        return self.known[key]

    def leads_to(self, name: str) -> tuple[str, ...]:
        """Returns the rules that one leads to."""
        if name not in self.led:
            seen: dict[str, None] = {}
            waiting = [name]
            while waiting:
                for token in self.rules[waiting.pop()].tokens:
                    if token.kind == "name" and token.text in self.rules and token.text not in seen:
                        seen[token.text] = None
                        waiting.append(token.text)
            self.led[name] = tuple(seen)
        return self.led[name]


class _Body:
    """Recursive descent through one rule; `at` is the next token's index."""

    def __init__(
        self, rules: Rules, name: str, rule: Rule, path: tuple[str, ...], bound: dict[str, tuple[Expression, int]]
    ) -> None:
        self.rules, self.name, self.path, self.bound = rules, name, path, bound
        self.tokens = rule.tokens
        self.terminal = name == "%ignore" or name.lstrip("_").isupper()
        self.at = self.size = self.depth = 0

    def parse(self) -> tuple[Expression, int]:
        """Returns the rule's language; one that begins or ends with the rule itself repeats what is beside it, and one
        that does both what is between."""
        before: list[Expression] = []
        between: list[Expression] = []
        plain: list[Expression] = []
        behind: list[Expression] = []
        while True:
            left = self.takes_itself()
            begin = self.at
            part = self.concatenation()
            right, self.ends_itself = self.ends_itself, False
            if not left:
                (before if right else plain).append(part)
            elif self.at > begin:  # the rule alone says nothing
                (between if right else behind).append(part)
            if not self.take("|"):
                break
        if self.at < len(self.tokens):
            token = self.tokens[self.at]
            raise token.refusal(f"{token.text!r} is not expected here, in the rule {self.name!r}")
        found = union(plain)
        if before:
            found = sequence(repeat(union(before)), found)
        if behind:
            found = sequence(found, repeat(union(behind)))
        if between:
            self.grow(self.size)
            found = sequence(found, repeat(sequence(union(between), found)))
        return found, self.size

    ends_itself = False
    """Whether the concatenation that was read last ended with the rule itself, which was left out."""

    def is_itself(self, at: int) -> bool:
        """Whether the token there is the rule itself, once."""
        token = self.tokens[at] if at < len(self.tokens) else None
        behind = self.tokens[at + 1] if at + 1 < len(self.tokens) else None
        again = behind is not None and (behind.kind == "count" or behind.text in ("*", "+", "?", "~", "{"))
        return token is not None and token.kind == "name" and token.text == self.name and not again

    def takes_itself(self) -> bool:
        if not self.is_itself(self.at):
            return False
        end, itself = self.at + 1, ("name", self.name)
        level = 0
        while end < len(self.tokens) and not (level == 0 and self.tokens[end].text == "|"):
            level += {"(": 1, "[": 1, ")": -1, "]": -1}.get(self.tokens[end].text, 0)
            end += 1
        inner = [*enumerate(self.tokens[self.at + 1 : end], self.at + 1)]
        last = next((place for place, token in inner if token.text == "->"), end) - 1
        places = [place for place, token in inner if place <= last and (token.kind, token.text) == itself]
        if places and (places != [last] or not self.is_itself(last) or last == self.at + 1):
            return False  # also elsewhere, or nothing between
        self.at += 1
        return True

    def sees(self, *texts: str) -> bool:
        return self.at < len(self.tokens) and self.tokens[self.at].kind == "mark" and self.tokens[self.at].text in texts

    def take(self, *texts: str) -> bool:
        seen = self.sees(*texts)
        self.at += seen
        return seen

    def next(self, *kinds: str) -> Token:
        if self.at >= len(self.tokens):
            raise OptionError(f"grammar: the rule {self.name!r} is not finished")
        token = self.tokens[self.at]
        if token.kind not in kinds:
            raise token.refusal(f"{token.text!r} is not expected here, in the rule {self.name!r}")
        self.at += 1
        return token

    def alternatives(self) -> Expression:
        options = [self.concatenation()]
        while self.take("|"):
            options.append(self.concatenation())
        return union(options)

    def concatenation(self) -> Expression:
        parts: list[Expression] = []
        while self.at < len(self.tokens) and not self.sees("|", ")", "]", "}", ",", "->"):
            last = self.at + 1 == len(self.tokens) or self.tokens[self.at + 1].text in ("|", "->")
            if not self.depth and parts and last and self.is_itself(self.at):
                self.at += 1
                self.ends_itself = True
                break
            parts.append(self.quantified())
        if self.take("->"):
            self.next("name")
        return sequence(*parts) if parts else EMPTY

    def quantified(self) -> Expression:
        part = self.atom()
        if self.sees("*", "+", "?"):
            mark = self.next("mark").text
            return repeat(part, int(mark == "+"), 1 if mark == "?" else None)
        if self.at < len(self.tokens) and self.tokens[self.at].kind == "count":
            token = self.next("count")
            low, comma, high = token.text.strip("{} \t").partition(",")
            least = int(low or 0)
            return self.counted(part, token, least, (int(high) if high.strip() else None) if comma else least)
        if self.take("~"):
            token = self.tokens[self.at - 1]
            least = most = int(self.next("number").text)
            if self.take(".."):
                most = int(self.next("number").text)
            return self.counted(part, token, least, most)
        return part

    def counted(self, part: Expression, token: Token, least: int, most: int | None) -> Expression:
        if least > (least if most is None else most) or max(least, most or 0) > MAX_REPEAT:
            raise token.refusal(f"{least}..{most} repetitions, of at most {MAX_REPEAT}")
        return repeat(part, least, most)

    def atom(self) -> Expression:
        if self.sees("(") or (self.sees("[") and not self.rules.gbnf):
            return self.group()
        token = self.next("text", "regex", "name")
        self.rules.read += 1
        if self.rules.read > MAX_READ:
            raise OptionError(f"grammar: it has more than {MAX_READ} parts, its templates and recursions written out")
        self.grow(1)
        if token.kind == "name":
            return self.named(token)
        found = self.regex(token) if token.kind == "regex" else self.text(token)
        return self.spaced(found)

    def spaced(self, terminal: Expression) -> Expression:
        """A terminal, and in a rule what is ignored behind it."""
        if self.terminal or self.rules.ignored == NEVER:
            return terminal
        return sequence(terminal, Repeat(self.rules.ignored))

    def named(self, token: Token) -> Expression:
        name = token.text
        if name in self.bound:
            expression, size = self.bound[name]
        elif name in self.rules.rules:
            rule = self.rules.rules[name]
            if rule.parameters:
                expression, size = self.template(token, rule)
            else:
                expression, size = self.rules.rule(name, self.path)
        elif name in self.rules.imported:
            expression, size = self.rules.imported[name], 1
        else:
            raise token.refusal(f"there is no rule named {name!r}")
        self.grow(size)
        return self.spaced(expression) if name.lstrip("_").isupper() else expression

    def template(self, token: Token, rule: Rule) -> tuple[Expression, int]:
        """A template with its parameters put in."""
        if not self.take("{"):
            raise token.refusal(f"the template {token.text!r} needs {len(rule.parameters)} parameters")
        given = [(self.alternatives(), 1)]
        while self.take(","):
            given.append((self.alternatives(), 1))
        if not self.take("}") or len(given) != len(rule.parameters):
            raise token.refusal(f"the template {token.text!r} needs {len(rule.parameters)} parameters")
        if self.path.count(token.text) >= self.rules.deep:
            return NEVER, 0
        bound = dict(zip(rule.parameters, given, strict=True))
        return _Body(self.rules, token.text, rule, (*self.path, token.text), bound).parse()

    def regex(self, token: Token) -> Expression:
        if self.rules.gbnf:
            pattern, flags = "(?s)." if token.text == "." else gbnf_class(token.text), ""
        else:
            body, _, flags = token.text[1:].rpartition("/")
            pattern = body.replace("\\/", "/")
        if unknown := set(flags) - {"i", "s"}:
            raise token.refusal(f"the flag {min(unknown)!r} after {token.text[: -len(flags)]} is not supported")
        try:
            return parse(f"(?{flags}){pattern}" if flags else pattern, part=True)
        except OptionError as error:
            raise token.refusal(str(error)) from None

    def text(self, token: Token) -> Expression:
        folded = token.text.endswith("i")
        text = self.unquote(token)
        if self.take(".."):
            last = self.unquote(self.next("text"))
            if len(text) != 1 or len(last) != 1 or text > last:
                raise token.refusal(f"{token.text}..{last!r} is no range of characters")
            return Chars(charset.make([(ord(text), ord(last))]))
        if folded and text:
            return sequence(*(Chars(unicode_sets.both_cases(charset.of(c), wide=False)) for c in text))
        return Text(text)

    def group(self) -> Expression:
        token = self.next("mark")
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise token.refusal(f"more than {MAX_DEPTH} groups in each other")
        inner = self.alternatives()
        self.depth -= 1
        if not self.take(")" if token.text == "(" else "]"):
            raise token.refusal(f"an unmatched {token.text}")
        return inner if token.text == "(" else repeat(inner, 0, 1)

    def unquote(self, token: Token) -> str:
        try:
            return unquoted(token.text.removesuffix("i"), self.rules.gbnf)
        except ValueError:
            raise token.refusal(f"{token.text} is no text: escapes are those of JSON, \\xHH and \\UHHHHHHHH") from None

    def grow(self, parts: int) -> None:
        self.size += parts
        if self.size > MAX_PARTS:
            raise OptionError(f"grammar: the rule {self.name!r} has more than {MAX_PARTS} parts, others put in")
