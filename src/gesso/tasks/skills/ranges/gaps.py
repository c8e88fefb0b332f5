"""Asks for what is missing in rows of numbers: in blanks, behind dots, or after the last one given."""

import string

from gesso.tasks.skills.layouts import COMMAS, SPACES
from gesso.tasks.skills.numerals import spell
from gesso.tasks.skills.patterns import read_phrasings
from gesso.tasks.skills.slots import Slots

BLANKS = read_phrasings("ranges", "blanks")
DOTS = read_phrasings("ranges", "dots")
_HOLES = ("__", "__", "_", "___", "?", "?", "...", "[ ]", "____", "x")
_STEPS = (1, 1, 1, 2, 2, 3, 4, 5, 5, 10, 10, 20, 25, 50, 100)


def _row(slots: Slots, count: int) -> list[str]:
    """Draws a row of numbers up or down, or of letters."""
    rng = slots.rng
    if rng.random() < 0.1:
        first = rng.randint(0, 26 - count)
        letters = list(string.ascii_lowercase[first : first + count])
        return letters if rng.random() < 0.6 else [letter.upper() for letter in letters]
    step = rng.choice(_STEPS)
    start = rng.choice((step, step * rng.randint(1, 9), rng.randint(0, 30), rng.randint(1, 300)))
    numbers = [start + i * step for i in range(count)]
    if rng.random() < 0.2:
        numbers.reverse()
    return list(map(str, numbers))


def draw_blanks(slots: Slots) -> tuple[str, str]:
    """Draws a row with one to three blanks, of which the whole or the missing ones are asked."""
    rng = slots.rng
    row = _row(slots, rng.randint(5, 8))
    gaps = sorted(
        rng.sample(range(2, len(row) - 1), rng.choice((1, 1, 2, 2, 3)) if len(row) > 5 else rng.choice((1, 2)))
    )
    layout = COMMAS if rng.random() < 0.8 else SPACES
    hole = rng.choice([hole for hole in _HOLES if layout is COMMAS or " " not in hole])
    if row[0].isalpha() and hole == "x":
        hole = "?"
    data = layout.write([hole if i in gaps else item for i, item in enumerate(row)])
    gone = layout.write([item for i, item in enumerate(row) if i not in gaps])
    while True:
        flag, text = slots.choice(BLANKS, data=data, gone=gone).split(" ", 1)
        if (flag == "one") <= (len(gaps) == 1) and (flag == "some") <= (len(gaps) > 1):
            return text, layout.write(row if flag == "whole" else [row[i] for i in gaps])


def draw_dots(slots: Slots) -> tuple[str, str]:
    """Draws the beginning of a row, which is to be written to its end, or continued by some."""
    rng = slots.rng
    row = _row(slots, rng.randint(6, 11))
    shown = 3 if rng.random() < 0.75 else 4
    more = len(row) - shown
    given = ", ".join(row[:shown])
    dots = rng.choice(("...", "...", "\u2026", "..."))
    flag, text = slots.choice(
        DOTS, given=given, open=f"{given}, {dots}", full=f"{given}, {dots}, {row[-1]}", b=row[-1],
        n=spell(more) if rng.random() < 0.3 else more,
    ).split(" ", 1)  # fmt: skip
    found = {"all": row, "next": row[shown:], "one": row[shown : shown + 1]}[flag]
    return text, ", ".join(found)
