"""Holds what every kind of row has: its items, and how a request for them is worded."""

import random
from dataclasses import dataclass, field

from gesso.tasks.skills.layouts import Layout
from gesso.tasks.skills.patterns import Phrasings
from gesso.tasks.skills.slots import Slots


@dataclass(frozen=True, slots=True)
class Row:
    """Holds what is to be listed and how a request says it."""

    phrasings: Phrasings
    items: list[str]
    values: dict[str, object] = field(default_factory=dict)
    flags: dict[str, tuple[list[str], Layout | None]] = field(default_factory=dict)
    """What a pattern asks for instead that begins with the flag and a space."""

    def worded(self, slots: Slots) -> tuple[str, list[str], Layout | None]:
        """Draws the request; returns it with what it asks for, and in what layout where it says so."""
        while True:
            ask = slots.choice(self.phrasings, **self.values)
            if not self.flags:
                return ask, self.items, None
            flag, ask = ask.split(" ", 1)
            if flag in self.flags:
                return ask, *self.flags[flag]


def draw_border(rng: random.Random, count: int) -> int:
    """Draws where a row of numbers begins that crosses a hundred, a thousand, or ten thousands."""
    unit = rng.choice((10, 100, 100, 1000, 1000, 10_000, 100_000))
    return max(0, unit * rng.randint(1, 9) - rng.randint(0, count - 1))
