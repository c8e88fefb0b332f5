r"""Grammars in the notation of Lark's rules, as far as they are regular: no rule may lead back to itself.

    start: greeting ", " name+ ["!"]       // the rule `start` (or `root`) is the language
    greeting: "hello" | "good " ("day" | "night")
    name: /[A-Z][a-z]*/ | "a".."f" ~ 2..4

A rule is `name: ...` or `name ::= ...` and goes on over lines until the next one. It is made of texts in quotes (with
the escapes of JSON), regular expressions in slashes (see `regex`), names, `( )`, `[ ]` for what may be missing, `|`,
`* + ?`, and `~ n` or `~ n..m`. Nothing is ignored between parts. Directives (`%ignore`), flags, priorities, aliases
and modifiers of rules are refused by name.
"""

import json
import re
from dataclasses import dataclass

from gesso.constraints import charset
from gesso.constraints.expression import EMPTY, Chars, Expression, Text, repeat, sequence, union
from gesso.constraints.regex import MAX_DEPTH, MAX_REPEAT, parse
from gesso.errors import OptionError

MAX_PARTS = 100_000
"""Of the start rule, once the others are put in."""

_TOKEN = re.compile(
    r"""
    (?P<blank>\s+|//[^\n]*|\#[^\n]*)
    |(?P<rule>(?<![^\n])[ \t]*[A-Za-z_][A-Za-z0-9_]*[ \t]*(?:::=|:))
    |(?P<text>"(?:[^"\\\n]|\\.)*")
    |(?P<regex>/(?:[^/\\\n]|\\.)+/)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<number>[0-9]+)
    |(?P<mark>->|\.\.|[()\[\]|*+?~])
    |(?P<directive>%[A-Za-z]*)
    |(?P<other>.)
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    line: int


def parse_grammar(text: str) -> Expression:
    """The language of the rule `start`, or `root`.

    Raises:
        OptionError: the grammar is malformed, uses what is not supported, or is recursive; it names line or rule.
    """
    rules: dict[str, list[_Token]] = {}
    for token in _tokens(text):
        if token.kind == "rule":
            name = token.text.strip().rstrip(":=").strip()
            if name in rules:
                raise _refusal(token, f"the rule {name!r} is there already")
            body = rules[name] = []
        elif not rules:
            raise _refusal(token, "a rule must start with its name and a colon")
        else:
            body.append(token)
    start = next((name for name in ("start", "root") if name in rules), None)
    if start is None:
        raise OptionError("grammar: it has no rule named start")
    return _Rules(rules).rule(start, ())[0]


def _tokens(text: str) -> list[_Token]:
    tokens = []
    line = 1
    for match in _TOKEN.finditer(text):
        kind = str(match.lastgroup)
        token = _Token(kind, match[0], line)
        line += match[0].count("\n")
        if kind == "directive":
            raise _refusal(token, f"the directive {token.text} is not supported")
        if kind == "other":
            raise _refusal(token, f"{token.text!r} is not understood")
        if kind != "blank":
            tokens.append(token)
    return tokens


def _refusal(token: _Token, what: str) -> OptionError:
    return OptionError(f"grammar, line {token.line}: {what}")


class _Rules:
    """Rules and what they have become; an expression goes with the number of its parts."""

    def __init__(self, rules: dict[str, list[_Token]]) -> None:
        self.rules = rules
        self.known: dict[str, tuple[Expression, int]] = {}

    def rule(self, name: str, path: tuple[str, ...]) -> tuple[Expression, int]:
        if name in path:
            way = " -> ".join([*path[path.index(name) :], name])
            raise OptionError(f"grammar: the rule {name!r} leads back to itself ({way}); only regular grammars work")
        if len(path) >= MAX_DEPTH:
            raise OptionError(f"grammar: more than {MAX_DEPTH} rules lead to each other, down to {name!r}")
        if name not in self.known:
            self.known[name] = _Body(self, name, (*path, name)).parse()
        return self.known[name]


class _Body:
    """Recursive descent through one rule; `at` is the next token's index."""

    def __init__(self, rules: _Rules, name: str, path: tuple[str, ...]) -> None:
        self.rules = rules
        self.name = name
        self.path = path
        self.tokens = rules.rules[name]
        self.at = 0
        self.size = 0
        self.depth = 0

    def parse(self) -> tuple[Expression, int]:
        expression = self.alternatives()
        if self.at < len(self.tokens):
            token = self.tokens[self.at]
            raise _refusal(token, f"{token.text!r} is not expected here, in the rule {self.name!r}")
        return expression, self.size

    def sees(self, *texts: str) -> bool:
        return self.at < len(self.tokens) and self.tokens[self.at].kind == "mark" and self.tokens[self.at].text in texts

    def take(self, *texts: str) -> bool:
        seen = self.sees(*texts)
        self.at += seen
        return seen

    def next(self, *kinds: str) -> _Token:
        if self.at >= len(self.tokens):
            raise OptionError(f"grammar: the rule {self.name!r} is not finished")
        token = self.tokens[self.at]
        if token.kind not in kinds:
            raise _refusal(token, f"{token.text!r} is not expected here, in the rule {self.name!r}")
        self.at += 1
        return token

    def alternatives(self) -> Expression:
        options = [self.concatenation()]
        while self.take("|"):
            options.append(self.concatenation())
        return union(options)

    def concatenation(self) -> Expression:
        parts = []
        while self.at < len(self.tokens) and not self.sees("|", ")", "]"):
            parts.append(self.quantified())
        return sequence(*parts) if parts else EMPTY

    def quantified(self) -> Expression:
        part = self.atom()
        if self.sees("*", "+", "?"):
            mark = self.next("mark").text
            return repeat(part, int(mark == "+"), 1 if mark == "?" else None)
        if self.take("~"):
            token = self.tokens[self.at - 1]
            least = most = int(self.next("number").text)
            if self.take(".."):
                most = int(self.next("number").text)
            if not least <= most <= MAX_REPEAT:
                raise _refusal(token, f"{least}..{most} repetitions, of at most {MAX_REPEAT}")
            return repeat(part, least, most)
        return part

    def atom(self) -> Expression:
        if self.sees("(", "["):
            return self.group()
        token = self.next("text", "regex", "name")
        self.grow(1)
        if token.kind == "regex":
            try:
                return parse(token.text[1:-1].replace("\\/", "/"))
            except OptionError as error:
                raise _refusal(token, str(error)) from None
        if token.kind == "name":
            before = self.tokens[self.at - 2] if self.at > 1 else None
            if before is not None and before.kind in {"text", "regex"} and len(token.text) <= 2:
                self.refuse_flag(before, token)
            if token.text not in self.rules.rules:
                raise _refusal(token, f"there is no rule named {token.text!r}")
            expression, size = self.rules.rule(token.text, self.path)
            self.grow(size)
            return expression
        text = self.unquote(token)
        if not self.take(".."):
            return Text(text)
        last = self.unquote(self.next("text"))
        if len(text) != 1 or len(last) != 1 or text > last:
            raise _refusal(token, f"{token.text}..{last!r} is no range of characters")
        return Chars(charset.make([(ord(text), ord(last))]))

    def refuse_flag(self, before: _Token, token: _Token) -> None:
        if token.text not in self.rules.rules:
            raise _refusal(token, f"the flag {token.text!r} after {before.text} is not supported")

    def group(self) -> Expression:
        token = self.next("mark")
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise _refusal(token, f"more than {MAX_DEPTH} groups in each other")
        inner = self.alternatives()
        self.depth -= 1
        if not self.take(")" if token.text == "(" else "]"):
            raise _refusal(token, f"an unmatched {token.text}")
        return inner if token.text == "(" else repeat(inner, 0, 1)

    def unquote(self, token: _Token) -> str:
        try:
            text = str(json.loads(token.text, strict=False))
            text.encode()
        except ValueError:
            raise _refusal(token, f"{token.text} is no text: escapes are those of JSON") from None
        return text

    def grow(self, parts: int) -> None:
        self.size += parts
        if self.size > MAX_PARTS:
            raise OptionError(f"grammar: the rule {self.name!r} has more than {MAX_PARTS} parts, others put in")
