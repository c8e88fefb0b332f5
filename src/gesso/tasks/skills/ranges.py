"""Asks to count from any number to any other, up or down, in steps."""

from typing import ClassVar

from gesso.tasks.base import Example
from gesso.tasks.skills.skill import Skill
from gesso.tasks.skills.slots import Phrasings, Slots

_UP = Phrasings(
    (
        "Count from {a} to {b}",
        "Count from {a} to {b} separated by commas",
        "Count up from {a} to {b}",
        "List [the|all|] numbers from {a} to {b}",
        "[Write|Give] [the|all] numbers from {a} to {b}",
        "Count {a} to {b}",
        "Write out the numbers between {a} and {b}, both included",
        "~Numbers from {a} to {b}",
        "Count from {a} up to {b}",
        "Name every number from {a} to {b}",
    ),
    ("Start at {a} and count to {b}", "Give me the range {a} to {b}", "Enumerate {a} through {b}"),
)
_DOWN = Phrasings(
    (
        "Count down from {a} to {b}",
        "Count backwards from {a} to {b}",
        "List the numbers from {a} down to {b}",
        "Count from {a} down to {b}",
        "[Write|Give] the numbers from {a} down to {b}",
    ),
    ("Start at {a} and count back to {b}", "Make a countdown from {a} to {b}"),
)
_STEPS = Phrasings(
    (
        "Count from {a} to {b} in steps of {s}",
        "Count from {a} to {b} by {s}",
        "List every {s}th number from {a} to {b}",
        "Write the numbers from {a} to {b} in steps of {s}",
        "Count by {s} from {a} to {b}",
    ),
    ("Go from {a} to {b} by adding {s} each time", "Starting with {a}, add {s} until you reach {b}"),
)
_LONGEST = 14


class Ranges(Skill):
    """Asks such as `Count from 8997 to 9003` -> `8997, 8998, 8999, 9000, 9001, 9002, 9003`."""

    name = "ranges"
    phrasings: ClassVar = {"up": _UP, "down": _DOWN, "steps": _STEPS}

    def draw(self, slots: Slots) -> Example:
        """Draws two to fourteen numbers of up to six digits, or up to thirty below 1,000."""
        rng = slots.rng
        digits = rng.choices((1, 2, 3, 4, 5, 6), (0.15, 0.3, 0.25, 0.15, 0.08, 0.07))[0]
        count = rng.randint(2, min(_LONGEST, 44 // (digits + 1)))
        if digits in (2, 3) and rng.random() < 0.2:
            count = rng.randint(_LONGEST, 30)
        start = slots.number(digits)
        kind = rng.choices(("up", "down", "steps"), (0.65, 0.2, 0.15))[0]
        step = rng.choice((2, 3, 4, 5, 10, 20, 25, 50, 100)) if kind == "steps" else 1
        numbers = [start + i * step for i in range(count)]
        if kind == "down":
            numbers.reverse()
        phrasings = {"up": _UP, "down": _DOWN, "steps": _STEPS}[kind]
        ask = slots.choice(phrasings, a=numbers[0], b=numbers[-1], s=step)
        return Example(self.name, slots.frame(ask), ", ".join(map(str, numbers)), kind=slots.kind(kind))
