"""Asks to change a small Python function as told, and nothing else, whatever its names are.

The prompt is the one that an edit asks with: the instruction, an empty line, the text to change, and perhaps what
stands around it.
"""

import re
from typing import ClassVar

from gesso.tasks.base import Example
from gesso.tasks.code import NUMBER, lone_numbers
from gesso.tasks.edit_prompt import edit_prompt
from gesso.tasks.skills.functions import Function, draw_function
from gesso.tasks.skills.skill import Skill
from gesso.tasks.skills.slots import RESERVED, Slots, read_phrasings

_RENAME = read_phrasings("changes", "rename")
_ARGUMENT = read_phrasings("changes", "argument")
_NUMBER = read_phrasings("changes", "number")
_INVERT = read_phrasings("changes", "invert")
_OPERATOR = read_phrasings("changes", "operator")
_OPERATORS = {
    "+": ("add", "plus", "sum"), "-": ("subtract", "minus", "difference"), "*": ("multiply", "times", "product"),
    "/": ("divide", "divided by", "quotient"),
}  # fmt: skip
"""What each does, and is called."""
_SIGN = re.compile(r" ([-+*/]) ")
_INVERSE = {">": "<=", "<=": ">", "<": ">=", ">=": "<", "==": "!=", "!=": "=="}
_COMPARISON = re.compile(r" (>=|<=|==|!=|>|<) ")
_MOST_OTHERS = 3
_AROUND_SHARE = 0.25
_LINE_SHARE = 0.3


class Changes(Skill):
    """Asks such as `Call the function grelt_max.` and a function -> the function under its new name."""

    name = "changes"
    phrasings: ClassVar = {
        "rename": _RENAME,
        "argument": _ARGUMENT,
        "number": _NUMBER,
        "condition": _INVERT,
        "operator": _OPERATOR,
    }

    def draw(self, slots: Slots) -> Example:
        """Draws a function, one of the changes that it allows and, one time in four, functions around it."""
        rng = slots.rng
        function = draw_function(slots, named=rng.random() < 0.7)
        kinds = ["rename", "argument"]
        if lone_numbers(function.source):
            kinds += ["number", "number"]
        if _COMPARISON.search(function.source):
            kinds.append("condition")
        if len(_SIGN.findall(function.source)) == 1:
            kinds += ["operator", "operator"]
        kind = rng.choice(kinds)
        ask, answer = _change(slots, function, kind)
        if rng.random() < 0.15:
            ask = ask.rstrip(".")
        if rng.random() < 0.15:
            ask = ask[0].lower() + ask[1:]
        part, before, after = function.source, "", ""
        if rng.random() < _AROUND_SHARE:
            others = [
                draw_function(slots, named=rng.random() < 0.7).source for _ in range(rng.randint(1, _MOST_OTHERS))
            ]
            place = rng.randint(0, len(others))
            before, after = ("\n\n\n".join(some) for some in (others[:place], others[place:]))
            if rng.random() < _LINE_SHARE and part.count("\n") == answer.count("\n"):
                above, part, answer, below = _changed_line(part, answer)
                before = f"{before}\n\n\n{above}" if before and above else above or before
                after = f"{below}\n\n\n{after}" if below and after else below or after
            kind += " in a file"
        prompt = edit_prompt(ask, part, before, after)
        return Example(self.name, prompt, answer, source=part, kind=slots.kind(kind))

    def grade(self, example: Example, text: str) -> bool:
        """Accepts the changed part only, to the letter; white space at the end aside."""
        return text.rstrip() == example.answer


def _change(slots: Slots, function: Function, kind: str) -> tuple[str, str]:
    """An instruction, and the function as it is to be."""
    source, rng = function.source, slots.rng
    if kind == "condition":
        answer = _COMPARISON.sub(lambda found: f" {_INVERSE[found[1]]} ", source, count=1)
        return slots.choice(_INVERT), answer
    if kind == "operator":
        return _other_operator(slots, source)
    if kind == "number":
        old = rng.choice(lone_numbers(source))
        new = old
        while new == old:
            new = str(slots.number(4))
        ask = slots.choice(_NUMBER, old=old, new=new)
        # With other numbers there it must say which.
        while len(NUMBER.findall(source)) > 1 and not re.search(rf"(?<!\d){old}(?!\d)", ask):
            ask = slots.choice(_NUMBER, old=old, new=new)
        return ask, re.sub(rf"(?<![\w.]){old}(?![\w.])", new, source)
    taken = {function.name, *function.parameters, *RESERVED}
    new = slots.identifier()
    while new in taken:
        new = slots.identifier()
    if kind == "rename":
        answer = source.replace(f"def {function.name}(", f"def {new}(", 1)
        return slots.choice(_RENAME, old=function.name, new=new), answer
    new = slots.identifier(1)
    while new in taken:
        new = slots.identifier(1)
    old = rng.choice(function.parameters)
    head, tail = source.split("(", 1)
    renamed = re.sub(rf'(?<!["\w]){old}(?!["\w])', new, tail)
    phrasings = _ARGUMENT
    ask = slots.choice(phrasings, old=old, new=new)
    # With two arguments it must say which.
    while len(function.parameters) == 2 and not re.search(rf"(?<!\w){old}(?!\w)", ask):
        ask = slots.choice(phrasings, old=old, new=new)
    return ask, f"{head}({renamed}"


def _other_operator(slots: Slots, source: str) -> tuple[str, str]:
    """An instruction to calculate with another operator, and the function that does."""
    found = _SIGN.search(source)
    assert found is not None
    old, new = found[1], slots.rng.choice([sign for sign in _OPERATORS if sign != found[1]])
    nouns = {sign: slots.rng.choice((sign, _OPERATORS[sign][1])) for sign in (old, new)}
    ask = slots.choice(
        _OPERATOR, verb=_OPERATORS[new][0], old=_OPERATORS[old][0], sign=nouns[new], oldsign=nouns[old],
        noun=_OPERATORS[new][2], oldnoun=_OPERATORS[old][2],
    )  # fmt: skip
    return ask, _SIGN.sub(f" {new} ", source)


def _changed_line(source: str, answer: str) -> tuple[str, str, str, str]:
    """The line that a change is in, without its indentation, before and after it; and what stands above and below.

    Where several lines change, the whole is the part.
    """
    old, new = source.split("\n"), answer.split("\n")
    changed = [i for i, pair in enumerate(zip(old, new, strict=True)) if pair[0] != pair[1]]
    if len(changed) != 1:
        return "", source, answer, ""
    index = changed[0]
    return "\n".join(old[:index]), old[index].lstrip(), new[index].lstrip(), "\n".join(old[index + 1 :])
