"""Draws documents as `gesso fill` has them in its canvas where nobody says what is missing.

The prompt is nearly always the same, so the answer cannot follow from it: what is learned is how a document goes on
around a hole. Every document says the same thing twice, in a name, a comment or a rule, so that what is missing can be
told from the rest. It is trained on, and measured by filling holes (`benchmarks/fill.py`), not by answers.
"""

import json
from typing import ClassVar

from gesso.tasks.base import Example
from gesso.tasks.skills.functions.forms import Function, draw_function
from gesso.tasks.skills.functions.skill import grade_function
from gesso.tasks.skills.patterns import read_phrasings
from gesso.tasks.skills.skill import Skill
from gesso.tasks.skills.slots import Slots

PROMPT = "Fill in what is missing."
LATER = "\n\nLater the text goes on:\n\n"
_LONG_SHARE = 0.12
_COMMENT = read_phrasings("filling", "comment")
_CALL = read_phrasings("filling", "call")


class Filling(Skill):
    """Asks `Fill in what is missing.` -> a function with a comment, calls of a function, a list that counts, an
    object."""

    name = "filling"
    phrasings: ClassVar = {"comment": _COMMENT, "call": _CALL}

    def draw(self, slots: Slots) -> Example:
        """Draws a document; of a long one, the prompt shows the end, as a fill does with what its canvas cannot
        hold."""
        if slots.rng.random() < _LONG_SHARE:
            text, later = _documented(slots), _documented(slots)
            return Example(self.name, PROMPT + LATER + later, f"{text}\n\n\n{later}", kind=slots.kind("long"))
        make = slots.rng.choices((_documented, _called, _listed, _object), (0.5, 0.2, 0.15, 0.15))[0]
        return Example(self.name, PROMPT, make(slots), kind=slots.kind(make.__name__[1:]))

    def grade(self, example: Example, text: str) -> bool:
        """Accepts the same document, or a function that does the same."""
        text = text.rstrip()
        return text == example.answer or (example.answer.startswith("def ") and _runs_alike(example.answer, text))

    def split_key(self, example: Example) -> str:
        """Returns the document: all prompts are one."""
        return example.answer


def _runs_alike(reference: str, text: str) -> bool:
    bare, other = _without_comments(reference), _without_comments(text)
    alone = all(line.startswith("    ") for line in bare.split("\n")[1:])
    return alone and grade_function(bare, other)


def _without_comments(source: str) -> str:
    lines = [line for line in source.split("\n") if not line.strip().startswith(("#", '"""'))]
    return "\n".join(line for line in lines if line.strip())


def _documented(slots: Slots) -> str:
    function = draw_function(slots, named=slots.rng.random() < 0.8)
    comment = slots.choice(_COMMENT, what=function.what)
    comment = comment[0].upper() + comment[1:]
    head, body = function.source.split("\n", 1)
    if slots.rng.random() < 0.5:
        return f'{head}\n    """{comment}"""\n{body}'
    return f"# {comment}\n{head}\n{body}"


def _called(slots: Slots) -> str:
    function: Function = draw_function(slots, named=slots.rng.random() < 0.8)
    values = ", ".join(str(slots.number(3)) for _ in function.parameters)
    return f"{function.source}\n\n\n{slots.choice(_CALL, name=function.name, value=values)}"


def _listed(slots: Slots) -> str:
    start, step = slots.number(3), slots.rng.choice((1, 1, 2, 5, 10))
    row = ", ".join(str(start + step * i) for i in range(slots.rng.randint(4, 8)))
    name = slots.identifier(1)
    return slots.rng.choice((row, f"{name} = [{row}]", f"[{row}]"))


def _object(slots: Slots) -> str:
    rng = slots.rng
    name, count = slots.identifier(1), rng.randint(2, 3)
    rows = [{"id": i + 1, name: slots.word()} for i in range(count)]
    return json.dumps(rows) if rng.random() < 0.5 else "\n".join(f"{row['id']}. {row[name]}" for row in rows)
