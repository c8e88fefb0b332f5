"""Asks to change a small Python function as told, and nothing else, whatever its names are.

The prompt is the one that an edit asks with: the instruction, an empty line, the text to change, and perhaps what
stands around it; or as people type it, the text first, or in a fence.
"""

import dataclasses
import re
from typing import ClassVar

from gesso.tasks.base import Example
from gesso.tasks.edit_prompt import changed_line, edit_prompt
from gesso.tasks.skills.changes.forms import FORM_KINDS, draw_form_change
from gesso.tasks.skills.changes.kinds import KINDS, possible_changes
from gesso.tasks.skills.changes.names import SHORT
from gesso.tasks.skills.functions.forms import (
    Function,
    draw_any_function,
    draw_coded_function,
    draw_constant_function,
    draw_function,
)
from gesso.tasks.skills.patterns import read_phrasings, with_small_letter
from gesso.tasks.skills.skill import Skill
from gesso.tasks.skills.slots import Slots

_MOST_OTHERS = 3
_AROUND_SHARE = 0.2
_LINE_SHARE = 0.3
_SPARE_SHARE = 0.05
"""Share of the functions that have an argument which they do not use."""
_BEHIND_SHARE, _FENCED_SHARE, _INTRODUCED_SHARE = 0.22, 0.1, 0.3
"""Shares of the prompts that have the text first, and in a fence, and of the first of those with words before it."""
_FORM_SHARE, _TAIL_SHARE = 0.5, 0.07
"""Shares of the changes whose functions are drawn for them, and of requests that say something more."""
_TAILS, _INTROS = read_phrasings("changes", "tails"), read_phrasings("changes", "intros")


class Changes(Skill):
    """Asks such as `Call the function grelt_max.` and a function -> the function under its new name."""

    name = "changes"
    phrasings: ClassVar = {
        **{kind: change.phrasings for kind, change in KINDS.items()},
        **{kind: change.phrasings for kind, change in FORM_KINDS.items()},
        **SHORT,
        "tails": _TAILS,
        "intros": _INTROS,
    }

    def draw(self, slots: Slots) -> Example:
        """Draws a function, one of the changes that it allows and, one time in five, functions around it."""
        rng = slots.rng
        if rng.random() < _FORM_SHARE:
            kind, (ask, part, answer) = draw_form_change(slots)
        else:
            function = _draw(slots)
            kinds = possible_changes(function)
            kind = rng.choices(kinds, [KINDS[kind].weight for kind in kinds])[0]
            ask, answer = KINDS[kind].make(slots, function)
            part = function.source
        if rng.random() < 0.15 and not kind.endswith("ocument") and kind != "docstring":
            ask = ask.rstrip(".")
        if rng.random() < 0.15:
            ask = with_small_letter(ask)
        if rng.random() < _TAIL_SHARE and ask[-1] in ".?!":
            ask = f"{ask} {slots.choice(_TAILS)}"
        before = after = ""
        if rng.random() < _AROUND_SHARE:
            others = [
                draw_function(slots, named=rng.random() < 0.7).source for _ in range(rng.randint(1, _MOST_OTHERS))
            ]
            place = rng.randint(0, len(others))
            before, after = ("\n\n\n".join(some) for some in (others[:place], others[place:]))
            if rng.random() < _LINE_SHARE and part.count("\n") == answer.count("\n"):
                above, part, answer, below = changed_line(part, answer)
                before = f"{before}\n\n\n{above}" if before and above else above or before
                after = f"{below}\n\n\n{after}" if below and after else below or after
            kind += " in a file"
            prompt = edit_prompt(ask, part, before, after)
        else:
            prompt = _placed(slots, ask, part)
        return Example(self.name, prompt, answer, source=part, kind=slots.kind(kind))

    def grade(self, example: Example, text: str) -> bool:
        """Accepts the changed part only, to the letter; white space at the end aside."""
        return text.rstrip() == example.answer


def _draw(slots: Slots) -> Function:
    rng = slots.rng
    kind = rng.choices(("plain", "any", "code", "constant"), (0.5, 0.22, 0.22, 0.06))[0]
    if kind == "plain":
        function = draw_function(slots, named=rng.random() < 0.7)
    else:
        draws = {"any": draw_any_function, "code": draw_coded_function, "constant": draw_constant_function}
        function = draws[kind](slots)
    spare = slots.identifier(1)
    if rng.random() < _SPARE_SHARE and not re.search(rf"\b{spare}\b", function.source):
        function = dataclasses.replace(function, parameters=(*function.parameters, spare))
    return function


def _placed(slots: Slots, ask: str, part: str) -> str:
    """The instruction and the text, most often as an edit asks."""
    rng = slots.rng
    if rng.random() < _FENCED_SHARE:
        part = f"```{rng.choice(('python', ''))}\n{part}\n```"
    if rng.random() < _BEHIND_SHARE:
        intro = f"{slots.choice(_INTROS)}{rng.choice((chr(10), chr(10) * 2))}"
        gap = rng.choice(("\n\n", "\n\n", "\n"))
        return f"{intro if rng.random() < _INTRODUCED_SHARE else ''}{part}{gap}{ask}"
    if rng.random() < 0.1 and (ask[-1].isalnum() or ask[-1] in "'`"):
        ask = f"{ask}:"
    if rng.random() < 0.12:
        return f"{ask}\n{part}"
    return edit_prompt(ask, part, "", "")
