"""Asks to change a small Python function as told, and nothing else: rename it, change a number, invert its condition.

The prompt is the one that an edit asks with: the instruction, an empty line, the text to change.
"""

import random
import re

from gesso.tasks.base import Example, Task
from gesso.tasks.code import Code, draw_name, lone_numbers
from gesso.tasks.edit_prompt import changed_line, edit_prompt

_INVERSE = {">": "<=", "<=": ">", "<": ">=", ">=": "<", "==": "!="}
_COMPARISON = re.compile(r" (>=|<=|==|>|<) ")
_NAME = re.compile(r"(?<=^def )\w+")


class Revision(Task):
    """Asks such as `Change 7 to 12.` and a function -> the function with 12 in place of 7."""

    name = "revision"

    def __init__(self) -> None:
        self._code = Code()

    def sample(self, rng: random.Random) -> Example:
        """Draws a function, then one of the changes that it allows."""
        source = self._code.sample(rng).answer
        changes = [_rename]
        if lone_numbers(source):
            changes.append(_change_number)
        if _COMPARISON.search(source):
            changes.append(_invert)
        instruction, answer = rng.choice(changes)(source, rng)
        return Example(self.name, f"{instruction}\n\n{source}", answer, source)

    def grade(self, example: Example, text: str) -> bool:
        """Accepts the changed function only, to the letter; white space at the end aside."""
        return text.rstrip() == example.answer

    def group(self, example: Example) -> str:
        """Returns the kind of the change."""
        return {"R": "rename", "C": "constant", "I": "condition"}[example.prompt[0]]


def _rename(source: str, rng: random.Random) -> tuple[str, str]:
    name = draw_name(rng)
    return f"Rename the function to {name}.", _NAME.sub(name, source, count=1)


def _change_number(source: str, rng: random.Random) -> tuple[str, str]:
    old = rng.choice(lone_numbers(source))
    new = str(rng.choice([number for number in range(2, 100) if str(number) != old]))
    return f"Change {old} to {new}.", re.sub(rf"(?<![\w.]){old}(?![\w.])", new, source)


def _invert(source: str, rng: random.Random) -> tuple[str, str]:  # noqa: ARG001
    return "Invert the condition.", _COMPARISON.sub(lambda found: f" {_INVERSE[found[1]]} ", source, count=1)


_MOST_OTHERS = 4
_LINE_SHARE = 0.35


class RevisionInFile(Revision):
    """Asks for the same in a file of several functions, of which a whole one, or a line of it, is to change.

    The prompt is the one that an edit of lines asks with.
    """

    name = "revision-in-file"

    def sample(self, rng: random.Random) -> Example:
        """Draws the change, then the functions around it."""
        change = super().sample(rng)
        instruction, source = change.prompt.split("\n\n", 1)
        names, others = {_NAME.findall(source)[0]}, list[str]()
        for _ in range(rng.randint(1, _MOST_OTHERS)):
            other = self._code.sample(rng).answer
            if _NAME.findall(other)[0] not in names:
                others.append(other)
                names.add(_NAME.findall(other)[0])
        place = rng.randint(0, len(others))
        before, after = ("\n\n\n".join(part) for part in (others[:place], others[place:]))
        part, answer = source, change.answer
        if rng.random() < _LINE_SHARE:
            above, part, answer, below = changed_line(source, answer)
            before = f"{before}\n\n\n{above}" if before else above
            after = f"{below}\n\n\n{after}" if below and after else below or after
        return Example(self.name, edit_prompt(instruction, part, before, after), answer, part)

    def group(self, example: Example) -> str:
        """Returns the kind of the change, and whether it is one line's."""
        instruction, part = example.prompt.split("\n\n")[-2:]
        kind = {"R": "rename", "C": "constant", "I": "condition"}[instruction[0]]
        return f"{kind}, line" if "\n" not in part else kind
