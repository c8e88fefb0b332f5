"""Reads the text of a grammar into statements: rules, what is imported, what is ignored."""

import re
from dataclasses import dataclass, field

from gesso.errors import OptionError

_LARK = re.compile(
    r"""
    (?P<blank>\s+|//[^\n]*|\#[^\n]*)
    |(?P<rule>(?<![^\n])[ \t]*[?!]{0,2}[A-Za-z_][A-Za-z0-9_]*(?:\{[^}\n"/]*\})?(?:\.-?[0-9]+)?[ \t]*(?:::=|:))
    |(?P<directive>%[A-Za-z]*)
    |(?P<text>"(?:[^"\\\n]|\\.)*"i?(?![A-Za-z]))
    |(?P<regex>/(?:[^/\\\n]|\\.)+/[a-z]*)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<number>[0-9]+)
    |(?P<mark>->|\.\.|[()\[\]{},.|*+?~])
    |(?P<other>.)
    """,
    re.VERBOSE,
)
_GBNF = re.compile(
    r"""
    (?P<blank>\s+|\#[^\n]*)
    |(?P<rule>(?<![^\n])[ \t]*[A-Za-z0-9_-]+[ \t]*::=)
    |(?P<text>"(?:[^"\\\n]|\\.)*")
    |(?P<regex>\[(?:[^\]\\\n]|\\.)*\]|\.)
    |(?P<count>\{[ \t]*(?:[0-9]+[ \t]*)?(?:,[ \t]*(?:[0-9]+[ \t]*)?)?\})
    |(?P<name>[A-Za-z0-9_-]+)
    |(?P<mark>[()|*+?])
    |(?P<other>.)
    """,
    re.VERBOSE,
)
_HEAD = re.compile(r"[?!]*([A-Za-z0-9_-]+)(?:\{([^}]*)\})?(\.-?[0-9]+)?\s*(?:::=|:)")


@dataclass(frozen=True, slots=True)
class Token:
    """Holds a part of a rule; `kind` is `text`, `regex`, `name`, `number`, `count` or `mark`."""

    kind: str
    text: str
    line: int

    def refusal(self, what: str) -> OptionError:
        """Makes the error that names the token's line."""
        return OptionError(f"grammar, line {self.line}: {what}")


@dataclass(slots=True)
class Rule:
    """Holds a rule, or a template where it has parameters."""

    tokens: list[Token] = field(default_factory=list)
    parameters: tuple[str, ...] = ()


@dataclass(slots=True)
class Statements:
    """Holds the statements of a grammar."""

    gbnf: bool
    """Whether the notation is llama.cpp's."""
    rules: dict[str, Rule] = field(default_factory=dict)
    imports: list[list[Token]] = field(default_factory=list)
    ignored: list[Rule] = field(default_factory=list)


def read(text: str) -> Statements:
    """Reads a grammar: in llama.cpp's notation where all rules are written with `::=` and the first one is `root` or
    has a hyphen or a class in brackets, else in Lark's.

    Raises:
        OptionError: a part is not understood or not supported; it names the line.
    """
    heads = re.findall(r"(?m)^[ \t]*[?!]{0,2}([A-Za-z0-9_-]+)(?![A-Za-z0-9_-])[^\n:\"/]*(::=|:)", text)
    gbnf = bool(heads) and all(mark == "::=" for _, mark in heads) and any(name == "root" for name, _ in heads)
    found = Statements(gbnf)
    here: list[Token] | None = None
    line = 1
    for match in (_GBNF if gbnf else _LARK).finditer(text):
        kind = str(match.lastgroup)
        token = Token(kind, match[0], line)
        line += match[0].count("\n")
        if kind == "other":
            raise token.refusal(f"{token.text!r} is not understood")
        if kind == "rule":
            here = _new_rule(found, token)
        elif kind == "directive":
            here = _new_directive(found, token)
        elif kind != "blank":
            if here is None:
                raise token.refusal("a rule must start with its name and a colon")
            here.append(token)
    return found


def _new_rule(found: Statements, token: Token) -> list[Token]:
    head = _HEAD.match(token.text.strip())
    assert head is not None
    name, parameters, priority = head.groups()
    if priority is not None:
        raise token.refusal(f"the priority of the rule {name!r} is not supported")
    if name in found.rules:
        raise token.refusal(f"the rule {name!r} is there already")
    names = () if parameters is None else tuple(part.strip() for part in parameters.split(","))
    rule = found.rules[name] = Rule(parameters=names)
    return rule.tokens


def _new_directive(found: Statements, token: Token) -> list[Token]:
    if token.text == "%import":
        found.imports.append([])
        return found.imports[-1]
    if token.text == "%ignore":
        found.ignored.append(Rule())
        return found.ignored[-1].tokens
    raise token.refusal(f"the directive {token.text} is not supported")
