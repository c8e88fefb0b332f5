"""Draws further ways to write a list: with numbers before the items, arrows between them, or brackets around each."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from gesso.tasks.skills.layouts import Layout, draw_layout


@dataclass(frozen=True, slots=True)
class NumberedLayout(Layout):
    """Writes a list whose items are numbered from one, in answers again."""

    mark: str = "{}. "
    letters: bool = False

    def write(self, items: Sequence[str]) -> str:
        """Returns the list as a prompt gives it."""
        return self.answer(items)

    def answer(self, items: Sequence[str]) -> str:
        """Returns the list with its numbers, or letters, in order."""
        marks = [chr(ord("a") + place) if self.letters else str(place + 1) for place in range(len(items))]
        return self.separator.join(self.mark.format(mark) + item for mark, item in zip(marks, items, strict=True))


_NUMBERED = (
    NumberedLayout("\n"),
    NumberedLayout("\n"),
    NumberedLayout("\n"),
    NumberedLayout("\n", mark="{}) "),
    NumberedLayout("\n", mark="{}) "),
    NumberedLayout("\n", mark="({}) "),
    NumberedLayout("\n", mark="{}: "),
    NumberedLayout("\n", mark="{} - "),
    NumberedLayout("\n", mark="{}) ", letters=True),
    NumberedLayout("\n", mark="{}. ", letters=True),
    NumberedLayout(" ", mark="{}. "),
    NumberedLayout(" ", mark="{}) "),
    NumberedLayout(", ", mark="{}) "),
    NumberedLayout("; ", mark="{}. "),
)
_OTHERS = (
    Layout(" > "),
    Layout(" > "),
    Layout(" -> "),
    Layout(" -> "),
    Layout(" → "),
    Layout(" => "),
    Layout(" >> "),
    Layout(" | "),
    Layout("|"),
    Layout("|"),
    Layout(" / "),
    Layout("/"),
    Layout(";"),
    Layout(" - "),
    Layout(" & "),
    Layout(" + "),
    Layout(" and "),
    Layout(" · "),
    Layout(" ; "),
    Layout(",\n"),
    Layout("\n\n"),
    Layout(" ", item="({})"),
    Layout(" ", item="[{}]"),
    Layout(" ", item="<{}>"),
    Layout(", ", item="({})"),
    Layout(" ", item='"{}"'),
    Layout(" ", item="'{}'"),
    Layout("\n", item='"{}"'),
    Layout(",", item='"{}"'),
    Layout(", ", whole="({})"),
    Layout(", ", whole="{{{}}}"),
    Layout("; ", whole="[{}]"),
    Layout(",", whole="[{}]"),
    Layout(",", whole="[{}]", item='"{}"'),
    Layout(",", whole="[{}]", item='"{}"'),
    Layout(", ", whole="[{}]", item='"{}"'),
    Layout(", ", whole="({})", item="'{}'"),
    Layout(" | ", whole="| {} |"),
    Layout("\n", item="• {}"),
    Layout("\n", item="+ {}"),
    Layout("\n", item="-> {}"),
    Layout("\n", item="- [ ] {}"),
    Layout("\n", item="{};"),
)
_BETWEEN_NUMBERS = ("", ",", ";", "|", "/", "->", "→", "and", "·")
_WIDE_SHARE, _NUMBERED_SHARE = 0.3, 0.3


def draw_wide_layout(rng: random.Random, *, numbered: bool) -> Layout:
    """Draws a layout of `draw_layout` seven times in ten, else one of the further ones.

    Args:
        numbered: whether the items may have numbers before them.
    """
    if rng.random() >= _WIDE_SHARE:
        return draw_layout(rng)
    if numbered and rng.random() < _NUMBERED_SHARE:
        layout: Layout = rng.choice(_NUMBERED)
        return layout
    return rng.choice(_OTHERS)


def draw_number_layout(rng: random.Random, *, numbered: bool) -> Layout:
    """Draws a layout in which no sign between numbers makes a sum, a comparison or another number of them, nor
    do numbers of items."""
    while True:
        layout = draw_wide_layout(rng, numbered=numbered)
        if isinstance(layout, NumberedLayout) and (layout.separator != "\n" or layout.mark == "{} - "):
            continue
        if layout.separator not in ("/", ",\n") and layout.separator.strip() in _BETWEEN_NUMBERS:
            return layout
