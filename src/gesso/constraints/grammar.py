r"""Reads grammars in the notation of Lark's rules or of llama.cpp's GBNF, regular or of bounded depth.

    start: greeting ", " name+ ["!"]       // the rule `start` (or `root`) is the language
    ?greeting: "hello"i | "good " ("day" | "night") -> part_of_day
    name: /[A-Z][a-z]*/ | "a".."f" ~ 2..4
    list{item, comma}: item (comma item)*   // a template, used as list{name, ","}
    %import common.WS
    %ignore WS

A rule goes on over lines until the next one. Lark's: texts in quotes, regular expressions in slashes (see `regex`) with
the flags `i` and `s`, names, `( )`, `[ ]` for what may be missing, `|`, `* + ?`, `~ n` and `~ n..m`, aliases,
templates, `%import common`, `%ignore`: what is ignored may stand at the beginning and behind each terminal. GBNF: texts
in quotes, classes in brackets, `.`, names, `( )`, `|`, `* + ?`, `{n}`, `{n,}`, `{n,m}`.

Escapes are listed in `grammar_texts`. A rule that leads back to itself at its beginning or its end repeats; of any
other as many stand in each other as there is room for, three at least and `DEEPEST` at most. Priorities and other
directives are refused by name.
"""

import re

from gesso.constraints import budget
from gesso.constraints.expression import NEVER, Expression, Fitting
from gesso.constraints.grammar_common import COMMON
from gesso.constraints.grammar_rules import Rules
from gesso.constraints.grammar_tokens import Statements, Token, read
from gesso.constraints.measures import spelled_size
from gesso.constraints.regex import parse
from gesso.errors import OptionError

DEEPEST, SHALLOWEST = 5, 3
"""How many of one rule stand in each other."""
SMALL, MAX_SIZE = 6_000, 500_000
"""Size of the shallowest expression up to which deeper ones are tried, which takes time, and of these."""
MAX_STATES = 3_000
"""States of the automaton that is then taken: a step's inference goes over all of them."""


def parse_grammar(text: str) -> Expression:
    """Returns the language of the rule `start`, or `root`.

    Raises:
        OptionError: the grammar is malformed or uses what is not supported; it names line or rule.
    """
    statements = read(text)
    start = next((name for name in ("start", "root") if name in statements.rules), None)
    if start is None:
        raise OptionError("grammar: it has no rule named start")
    imported = dict(_imports(statements))
    shallowest = Rules(statements, imported, SHALLOWEST).language(start)
    if shallowest == NEVER:
        raise OptionError(f"grammar: the rule {start!r} never comes to an end")
    options = [shallowest]
    deepest = DEEPEST if spelled_size(shallowest) <= SMALL else SHALLOWEST
    for deep in range(SHALLOWEST + 1, deepest + 1):
        try:
            deeper = Rules(statements, imported, deep).language(start)
        except OptionError:
            budget.current().check()
            break
        if deeper == options[0] or spelled_size(deeper) > MAX_SIZE:
            break
        options.insert(0, deeper)
    return Fitting(tuple(options), MAX_STATES) if len(options) > 1 else shallowest


def _imports(statements: Statements) -> list[tuple[str, Expression]]:
    found = []
    for tokens in statements.imports:
        written = "".join(token.text for token in tokens)
        line = tokens[0] if tokens else None
        match = re.fullmatch(r"common\.(\w+)(?:->(\w+))?", written)
        listed = re.fullmatch(r"common\((\w+(?:,\w+)*)\)", written)
        if match is not None:
            pairs = [(match[1], match[2] or match[1])]
        elif listed is not None:
            pairs = [(name, name) for name in listed[1].split(",")]
        else:
            raise (line or Token("", "", 1)).refusal(f"%import {written}: only common.NAME can be imported")
        for name, alias in pairs:
            if name not in COMMON:
                assert line is not None
                raise line.refusal(f"%import {written}: there is no common.{name}")
            found.append((alias, parse(COMMON[name])))
    return found
