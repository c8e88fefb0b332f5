"""Asks sums as small stories of things that come, go, and are packed, and as steps that are told in words."""

import re
from collections.abc import Callable

from gesso.tasks.skills.patterns import Phrasings, read_phrasings
from gesso.tasks.skills.slots import Slots
from gesso.tasks.skills.sums.numbers import draw_small

THINGS = read_phrasings("sums", "things")
BOXES = read_phrasings("sums", "boxes")
PLACES = read_phrasings("sums", "places")
STORIES = read_phrasings("sums", "stories")
CHAINS = read_phrasings("sums", "chains")
DOZENS = read_phrasings("sums", "dozens")
MISSING = read_phrasings("sums", "missing")
REASONS = read_phrasings("sums_kinds", "reasons")
_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "<": lambda a, b: b - a,
}
"""What the signs before a pattern do, each to the result so far; `<` takes that from the next number."""
_WIDE = 0.3
_AGES = re.compile(r"years? (?:old|younger|older)|turned|percent")
"""Stories whose numbers are no larger than a hundred."""
_WRITTEN = {
    "+": ("{} + {}", "{} + {}", "{}+{}", "{} plus {}"),
    "-": ("{} - {}", "{} - {}", "{}-{}", "{} minus {}"),
    "*": ("{} x {}", "{} x {}", "{} * {}", "{}*{}", "{} \u00d7 {}", "{}x{}", "{} times {}"),
}


def draw_story(slots: Slots, write: Callable[[int], str]) -> tuple[str, str]:
    """Draws a story of two or three numbers, and its answer."""
    return _steps(slots, STORIES, write, **told_values(slots))


def told_values(slots: Slots) -> dict[str, str]:
    """Draws the people, things and places of a story, and a number `k` that is no part of its sum."""
    thing = slots.choice(THINGS)
    box, boxes = slots.choice(BOXES).split("/")
    return {
        "thing": thing, "box": box, "boxes": boxes, "other": slots.first_name(), "place": slots.choice(PLACES),
        "name": slots.first_name(), "k": str(slots.rng.randint(2, 30)),
    }  # fmt: skip


def draw_chain(slots: Slots, write: Callable[[int], str]) -> tuple[str, str]:
    """Draws steps of a calculation in words, from the left to the right, and its answer."""
    return _steps(slots, CHAINS, write)


def _steps(slots: Slots, phrasings: Phrasings, write: Callable[[int], str], **values: str) -> tuple[str, str]:
    """Draws numbers until nothing on the way is below zero: the signs stand before the pattern."""
    signs, text = slots.choice(phrasings, a="{a}", b="{b}", c="{c}", **values).split(" ", 1)
    while True:
        numbers = [draw_small(slots.rng, 1)]
        for sign in signs:
            most = 12 if sign == "*" else 20
            numbers.append(slots.rng.randint(2, most) if slots.rng.random() < 0.5 else draw_small(slots.rng, 1))
        if slots.rng.random() < _WIDE and "*" not in signs and not _AGES.search(text):
            numbers = [slots.rng.randint(10, slots.rng.choice((99, 999))) for _ in numbers]
        if "<" in signs:
            numbers[-1] = slots.rng.choice((10, 20, 50, 50, 100, 100, 200, 500))
        found, least, most = numbers[0], numbers[0], numbers[0]
        for sign, number in zip(signs, numbers[1:], strict=True):
            found = _OPERATIONS[sign](found, number)
            least, most = min(least, found), max(most, found)
        if least >= 0 and most < 2000 and all(number > 1 for number in numbers):
            shown = dict(zip("abc", map(write, numbers), strict=False))
            return text.format(**shown), str(found)


def draw_dozens(slots: Slots, write: Callable[[int], str]) -> tuple[str, str]:
    """Asks for what a dozen and other numbers with names come to; the sign and the number stand before the pattern."""
    number = slots.rng.randint(2, slots.rng.choice((6, 12, 12, 20, 50)))
    operation, text = slots.choice(DOZENS, n=write(number), thing=slots.choice(THINGS), name=slots.first_name()).split(
        " ", 1
    )
    sign, other = operation[0], int(operation[1:])
    return text, str(_OPERATIONS[sign](number, other))


def draw_missing(slots: Slots, write: Callable[[int], str]) -> tuple[str, str]:
    """Asks for one of three numbers, `a` and `b` and their sum `c`; its letter stands before the pattern."""
    a, b = draw_small(slots.rng, 1), draw_small(slots.rng, 1)
    values = {"a": a, "b": b, "c": a + b}
    letter, text = slots.choice(MISSING, **{name: write(value) for name, value in values.items()}).split(" ", 1)
    return text, str(values[letter])


def draw_reason(slots: Slots, write: Callable[[int], str]) -> tuple[str, str]:  # noqa: ARG001
    """Draws what two numbers are about, and the sum that is asked; with `y` before the pattern they are years."""
    rng = slots.rng
    asked, text = slots.choice(REASONS, a="{a}", b="{b}", e="{e}", **told_values(slots)).split(" ", 1)
    sign = "-" if asked == "y" else asked
    if asked == "y":
        a = rng.randint(1900, 2030)
        b = a - rng.randint(12, 99)
    elif sign == "*":
        a, b = rng.randint(2, 12), rng.randint(2, rng.choice((9, 12, 20, 30, 60)))
    else:
        b, a = sorted((rng.randint(2, rng.choice((20, 60, 150))), rng.randint(3, rng.choice((20, 99, 300)))))
    expression = rng.choice(_WRITTEN[sign]).format(a, b)
    return text.format(a=a, b=b, e=expression), str(_OPERATIONS[sign](a, b))
