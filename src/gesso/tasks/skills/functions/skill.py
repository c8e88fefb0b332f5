"""Asks for a small Python function under any name; graded by running it, or by its syntax tree."""

import ast
import re
from typing import ClassVar

from gesso.tasks.base import Example
from gesso.tasks.run_code import UnsafeCodeError, load_function, outcome, parse_code
from gesso.tasks.skills.functions.forms import (
    Function,
    draw_any_function,
    draw_coded_function,
    draw_constant_function,
    draw_function,
)
from gesso.tasks.skills.functions.heads import HEADED
from gesso.tasks.skills.functions.statements import STATED
from gesso.tasks.skills.patterns import read_phrasings
from gesso.tasks.skills.skill import Skill
from gesso.tasks.skills.slots import Slots
from gesso.tasks.tried_arguments import tried_arguments

_SHARES = {"unnamed": 0.19, "named": 0.24, "headed": 0.24, "code": 0.15, "none": 0.08, "prints": 0.03}
_DRAWN = HEADED | STATED
_ALL_SHARES = _SHARES | {kind: share for kind, (_, share) in _DRAWN.items()}
_OF_TEXTS = re.compile(r"concat|join_strings|\bjoined (?:together|by|with)\b|\bfollowed by\b|\bthe string\b")
"""Requests whose arguments are texts, though the function would add up numbers as well."""


class Functions(Skill):
    """Asks such as `Define grelt_max(fig) returning fig plus 371` -> its definition."""

    name = "functions"
    phrasings: ClassVar = {kind: read_phrasings("functions", kind) for kind in _ALL_SHARES}

    def draw(self, slots: Slots) -> Example:
        """Draws a function of up to three arguments, told in words or by an expression."""
        rng = slots.rng
        kind = rng.choices(tuple(_ALL_SHARES), tuple(_ALL_SHARES.values()))[0]
        if kind in _DRAWN:
            fields, source = _DRAWN[kind][0](slots)
            prompt = slots.frame(slots.choice(self.phrasings[kind], **fields)).replace("??", "?")
            if kind == "lines" and prompt.endswith((f"{fields['second']}.", f"\n{fields['second']}?")):
                prompt = prompt[:-1]  # `return x + 7.` would be another number
            return Example(self.name, prompt, source, kind=slots.kind(kind))
        function = _draw(slots, kind)
        args = ", ".join(function.parameters)
        ask = slots.choice(
            self.phrasings[kind], name=function.name, args=args, head=function.head, what=function.what,
            code=function.what, value=function.what,
        )  # fmt: skip
        prompt = slots.frame(ask).replace("??", "?")
        return Example(self.name, prompt, function.source, kind=slots.kind("plain" if kind == "unnamed" else kind))

    def grade(self, example: Example, text: str) -> bool:
        """Accepts a function of the asked name that returns what the reference does on every input tried."""
        return grade_function(example.answer, text, of_texts=_OF_TEXTS.search(example.prompt) is not None)


def _draw(slots: Slots, kind: str) -> Function:
    if kind == "prints":
        (parameter,) = slots.identifiers(1, 1)
        name = slots.identifier(2)
        return Function(name, (parameter,), parameter, f"print({parameter})")
    if kind == "none":
        return draw_constant_function(slots)
    if kind == "code":
        return draw_coded_function(slots)
    if kind == "headed" or (kind == "named" and slots.rng.random() < 0.4):
        return draw_any_function(slots)
    return draw_function(slots, named=kind == "named")


def grade_function(reference: str, text: str, *, of_texts: bool = False) -> bool:
    """Says whether `text` is a function of the reference's name that does the same on every input tried, texts alone
    with `of_texts`; where the reference holds what is not run, such as methods of strings, whether both say the
    same."""
    if (tree := _tree(text)) is not None and tree == _tree(reference):
        return True
    if not reference.startswith("def "):
        return False
    name = reference[4 : reference.index("(")]
    try:
        expected = load_function(reference, name)
        function = load_function(text.strip(), name)
    except (UnsafeCodeError, NameError):
        return False
    wanted = [(values, outcome(expected, values)) for values in tried_arguments(expected, reference, of_texts=of_texts)]
    if all(kind == "raised" for _, (kind, _) in wanted):
        return False
    return all(outcome(function, values) == result for values, result in wanted)


def _tree(source: str) -> str | None:
    try:
        return ast.dump(parse_code(source.strip()))
    except (UnsafeCodeError, RecursionError):
        return None
