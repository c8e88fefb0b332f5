"""Asks for exact quotients, parts, remainders, averages and squares."""

import random
import re
from collections.abc import Callable

from gesso.tasks.skills.patterns import read_phrasings
from gesso.tasks.skills.slots import Slots
from gesso.tasks.skills.sums.numbers import draw_small
from gesso.tasks.skills.sums.stories import told_values

DIVIDED = read_phrasings("sums_kinds", "divided")
PARTS = read_phrasings("sums_kinds", "parts")
REMAINDER = read_phrasings("sums_kinds", "remainder")
AVERAGE = read_phrasings("sums_kinds", "average")
SQUARES = read_phrasings("sums_kinds", "squares")
_PARTS = {
    "half": 2, "a half": 2, "a third": 3, "one third": 3, "a quarter": 4, "one quarter": 4, "a fourth": 4,
    "a fifth": 5, "one fifth": 5, "a sixth": 6, "an eighth": 8, "a tenth": 10, "one tenth": 10, "1/2": 2, "1/3": 3,
    "1/4": 4, "1/5": 5, "1/10": 10,
}  # fmt: skip
_SIGNS = re.compile(r"[/\u00f7=:;_%(]|\{b\}s|\} \{")
"""Patterns whose numbers stand in digits."""
_COUNTS = {2: "two", 3: "three", 4: "four"}


def draw_divided(slots: Slots, write: Callable[[int], str]) -> tuple[str, str]:
    """Asks to divide a number by one that goes into it, most often within the times tables."""
    text = slots.choice(DIVIDED, a="{a}", b="{b}", **told_values(slots))
    by = slots.rng.randint(2, slots.rng.choice((5, 10, 10, 12)))
    quotient = _factor(slots.rng)
    write = str if _SIGNS.search(text) else write
    return text.format(a=write(by * quotient), b=write(by)), str(quotient)


def draw_part(slots: Slots, write: Callable[[int], str]) -> tuple[str, str]:
    """Asks for a half, a third and so on of a number that it divides."""
    part, by = slots.rng.choice(tuple(_PARTS.items()))
    found = _factor(slots.rng)
    return slots.choice(PARTS, part=part, a=write(by * found), **told_values(slots)), str(found)


def draw_remainder(slots: Slots, write: Callable[[int], str]) -> tuple[str, str]:
    """Asks what is left when a number is divided by another of one digit, or ten."""
    by = slots.rng.randint(2, slots.rng.choice((5, 7, 10)))
    number = by * slots.rng.randint(1, 10) + (slots.rng.randint(1, by - 1) if slots.rng.random() < 0.85 else 0)
    text = slots.choice(REMAINDER, a="{a}", b="{b}", **told_values(slots))
    write = str if _SIGNS.search(text) else write
    return text.format(a=write(number), b=write(by)), str(number % by)


def draw_average(slots: Slots, write: Callable[[int], str]) -> tuple[str, str]:
    """Asks for the average of two to four numbers, which is a whole one."""
    rng = slots.rng
    count = rng.choice((2, 2, 2, 3, 3, 4))
    middle, wide = draw_small(rng, 2), rng.choice((2, 4, 10))
    if rng.random() < 0.3:
        middle = middle * 10
    away = [rng.randint(-min(wide, middle - 1), min(wide, middle - 1)) for _ in range(count - 1)]
    numbers = [middle + step for step in (*away, -sum(away))]
    if min(numbers) < 0 or (len(set(numbers)) == 1 and rng.random() < 0.9):
        return draw_average(slots, write)
    shown = list(map(write, numbers))
    plain = list(map(str, numbers))
    text = slots.choice(
        AVERAGE, **{"and": f"{', '.join(shown[:-1])} and {shown[-1]}", "list": f"[{', '.join(plain)}]"},
        commas=", ".join(plain), lines="\n".join(plain), plus=" + ".join(plain), count=_COUNTS[count], digit=count,
        name=slots.first_name(),
    )  # fmt: skip
    return text, str(middle)


def draw_square(slots: Slots, write: Callable[[int], str]) -> tuple[str, str]:
    """Asks for a square, a cube or the root of a square."""
    rng = slots.rng
    power, text = slots.choice(SQUARES, a="{a}", s="{s}").split(" ", 1)
    number = rng.randint(2, 12) if rng.random() < 0.7 else rng.choice((rng.randint(1, 25), rng.randint(2, 10) * 10))
    if power == "3":
        number = rng.choice((1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 10, 10))
    write = write if re.search(r"\{a\} (squared|times|cubed)", text) else str
    found = number if power == "r" else number ** int(power)
    return text.format(a=write(number), s=number**2), str(found)


def _factor(rng: random.Random) -> int:
    """Draws a quotient: below a dozen in two of three, else below fifty or a round number."""
    if rng.random() < 0.67:
        return rng.randint(2, 12)
    return rng.choice((rng.randint(10, 50), rng.randint(2, 20) * 10, 100, rng.choice((15, 25, 50, 75))))
