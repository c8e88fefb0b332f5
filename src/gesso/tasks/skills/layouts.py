"""Draws how a list of items is written: what stands between them, around each, before each line and around all."""

import random
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Layout:
    """Writes a list in one way."""

    separator: str
    item: str = "{}"
    whole: str = "{}"
    last: str = ""
    """What stands between the last two in the place of the separator, as "and" does; answers leave it out."""

    def write(self, items: Sequence[str]) -> str:
        """Returns the list as a prompt gives it."""
        *before, end = (self.item.format(item) for item in items)
        if not before:
            return self.whole.format(end)
        return self.whole.format(self.separator.join(before) + (self.last or self.separator) + end)

    def answer(self, items: Sequence[str]) -> str:
        """Returns the list as an answer gives it: as in the prompt, but without "and"."""
        return self.whole.format(self.separator.join(self.item.format(item) for item in items))


COMMAS = Layout(", ")
SPACES = Layout(" ")
TIGHT = Layout(",")
LINES = Layout("\n")
_OTHERS = (
    Layout("; "),
    Layout("; "),
    Layout(" / "),
    Layout(" | "),
    Layout(" - "),
    TIGHT,
    Layout(", ", last=" and "),
    Layout(", ", last=" and "),
    Layout(", ", last=", and "),
    Layout(", ", item='"{}"'),
    Layout(", ", item="'{}'"),
    Layout(", ", whole="[{}]"),
    Layout(", ", whole="[{}]", item='"{}"'),
    Layout(", ", whole="[{}]", item="'{}'"),
    Layout("\n", item="- {}"),
    Layout("\n", item="- {}"),
    Layout("\n", item="* {}"),
)
_OTHERS_SHARE = 0.3


def draw_layout(rng: random.Random) -> Layout:
    """Draws a layout: commas, lines and spaces most often, others in three of ten."""
    most = (COMMAS, COMMAS, COMMAS, LINES, SPACES, SPACES)
    layout: Layout = rng.choice(_OTHERS if rng.random() < _OTHERS_SHARE else most)
    return layout
