"""Asks to count from any number to any other, up or down, in steps, odd or even ones, multiples, or letters."""

import re
import string
from typing import ClassVar

from gesso.tasks.base import Example
from gesso.tasks.skills.layouts import COMMAS, LINES, SPACES, Layout
from gesso.tasks.skills.patterns import read_phrasings
from gesso.tasks.skills.skill import Skill
from gesso.tasks.skills.slots import Slots
from gesso.tasks.skills.sums import spell

_UP = read_phrasings("ranges", "up")
_DOWN = read_phrasings("ranges", "down")
_STEPS = read_phrasings("ranges", "steps")
_TO = read_phrasings("ranges", "to")
_KIND = read_phrasings("ranges", "kind")
_MULTIPLES = read_phrasings("ranges", "multiples")
_LETTERS = read_phrasings("ranges", "letters")
_FIRST = read_phrasings("ranges", "first")
_KINDS = {
    "up": 0.44, "down": 0.18, "steps": 0.13, "to": 0.05, "kind": 0.06, "multiples": 0.05, "letters": 0.05, "first": 0.04
}  # fmt: skip
_LONGEST = 14
_BELOW_ZERO = 0.08
_OF_NUMBERS = re.compile(r"\b(count\w*|integers?|numbers?|steps?)\b", re.IGNORECASE)
"""What a request with numbers below zero is about: there is no page -4."""
_TOLD = {
    ", one per line": LINES, ", each on its own line": LINES, ", one number a line": LINES,
    " separated by spaces": SPACES, " with spaces between them": SPACES, ", space separated": SPACES,
    " separated by commas": COMMAS, ", comma separated without spaces": Layout(","),
    " separated by semicolons": Layout("; "), " with dashes between them": Layout("-"),
    " as a bullet list": Layout("\n", item="- {}"), " in square brackets": Layout(", ", whole="[{}]"),
    " as an array": Layout(", ", whole="[{}]"),
}  # fmt: skip
"""How a request may tell what the numbers are to be written in."""
_TOLD_SHARE = 0.12


class Ranges(Skill):
    """Asks such as `Count from 8997 to 9003` -> `8997, 8998, 8999, 9000, 9001, 9002, 9003`."""

    name = "ranges"
    phrasings: ClassVar = {
        "up": _UP, "down": _DOWN, "steps": _STEPS, "to": _TO, "kind": _KIND, "multiples": _MULTIPLES,
        "letters": _LETTERS, "first": _FIRST,
    }  # fmt: skip

    def draw(self, slots: Slots) -> Example:
        """Draws two to fourteen numbers of up to six digits, or up to thirty below 1,000; one in twenty begins at 1 and
        does not say so, a few are below zero."""
        rng = slots.rng
        kind = rng.choices(tuple(_KINDS), tuple(_KINDS.values()))[0]
        if kind == "letters":
            first, last = sorted(rng.sample(range(26), 2))
            found = list(string.ascii_lowercase[first : last + 1])
            if rng.random() < 0.4:
                found = [letter.upper() for letter in found]
            values: dict[str, object] = {"a": found[0], "b": found[-1]}
        elif kind == "multiples":
            step, count = rng.choice((rng.randint(2, 12), rng.randint(2, 99))), rng.randint(2, 10)
            found = [str(step * (i + 1)) for i in range(count)]
            values = {"n": count, "s": step}
        else:
            found, values = _numbers(slots, kind)
        ask = slots.choice(self.phrasings[kind], **values)
        while "-" in f"{values.get('a')}{values.get('b')}" and not _OF_NUMBERS.search(ask):
            ask = slots.choice(self.phrasings[kind], **values)
        layout = COMMAS
        if not ask.startswith("~") and ask[-1].isalnum() and rng.random() < _TOLD_SHARE:
            told, layout = rng.choice(tuple(_TOLD.items()))
            ask += told
        return Example(self.name, slots.frame(ask), layout.write(found), kind=slots.kind(kind))


def _numbers(slots: Slots, kind: str) -> tuple[list[str], dict[str, object]]:
    """Numbers a step apart, and what the request says of them."""
    rng = slots.rng
    digits = rng.choices((1, 2, 3, 4, 5, 6), (0.15, 0.3, 0.25, 0.15, 0.08, 0.07))[0]
    count = rng.randint(2, min(_LONGEST, 44 // (digits + 1)))
    if digits in (2, 3) and rng.random() < 0.2:
        count = rng.randint(_LONGEST, 30)
    start = slots.number(digits)
    if kind == "to":
        start = 1
    elif digits < 3 and kind in ("up", "down", "steps") and rng.random() < _BELOW_ZERO:
        start = -rng.randint(1, count + 2)
    step = 2 if kind == "kind" else rng.choice((2, 3, 4, 5, 10, 20, 25, 50, 100)) if kind == "steps" else 1
    numbers = [start + i * step for i in range(count)]
    if kind == "down":
        numbers.reverse()
    first, last = numbers[0], numbers[-1]
    texts = list(map(str, numbers))
    values: dict[str, object] = {"a": texts[0], "b": texts[-1], "s": step, "n": count}
    if kind == "steps" and digits < 3 and rng.random() < 0.2:
        # The same in quarters or halves.
        part = rng.choice((2, 4))
        texts = [f"{number / part:g}" for number in numbers]
        return texts, {"a": texts[0], "b": texts[-1], "s": f"{step / part:g}", "n": count}
    if min(first, last) >= 0 and max(first, last) < 1000 and rng.random() < 0.05:
        values |= {"a": spell(first), "b": spell(last)}
    if kind == "kind":
        values |= {
            "kind": "odd" if first % 2 else "even",
            "a": first - rng.randint(0, 1),
            "b": last + rng.randint(0, 1),
        }
    return texts, values
