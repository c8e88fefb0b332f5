"""Asks to count from any number to any other, up or down, in steps."""

from typing import ClassVar

from gesso.tasks.base import Example
from gesso.tasks.skills.skill import Skill
from gesso.tasks.skills.slots import Slots, read_phrasings

_UP = read_phrasings("ranges", "up")
_DOWN = read_phrasings("ranges", "down")
_STEPS = read_phrasings("ranges", "steps")
_TO = read_phrasings("ranges", "to")
_LONGEST = 14


class Ranges(Skill):
    """Asks such as `Count from 8997 to 9003` -> `8997, 8998, 8999, 9000, 9001, 9002, 9003`."""

    name = "ranges"
    phrasings: ClassVar = {"up": _UP, "down": _DOWN, "steps": _STEPS, "to": _TO}

    def draw(self, slots: Slots) -> Example:
        """Draws two to fourteen numbers of up to six digits, or up to thirty below 1,000; one in twenty begins at 1 and
        does not say so."""
        rng = slots.rng
        digits = rng.choices((1, 2, 3, 4, 5, 6), (0.15, 0.3, 0.25, 0.15, 0.08, 0.07))[0]
        count = rng.randint(2, min(_LONGEST, 44 // (digits + 1)))
        if digits in (2, 3) and rng.random() < 0.2:
            count = rng.randint(_LONGEST, 30)
        start = slots.number(digits)
        kind = rng.choices(("up", "down", "steps", "to"), (0.6, 0.2, 0.15, 0.05))[0]
        if kind == "to":
            start = 1
        step = rng.choice((2, 3, 4, 5, 10, 20, 25, 50, 100)) if kind == "steps" else 1
        numbers = [start + i * step for i in range(count)]
        if kind == "down":
            numbers.reverse()
        ask = slots.choice(self.phrasings[kind], a=numbers[0], b=numbers[-1], s=step)
        return Example(self.name, slots.frame(ask), ", ".join(map(str, numbers)), kind=slots.kind(kind))
