"""Asks for the sum of a column of a table, or of the numbers that stand behind the names of a list."""

from collections.abc import Callable

from gesso.tasks.skills.patterns import read_phrasings
from gesso.tasks.skills.slots import Slots
from gesso.tasks.skills.sums.numbers import draw_small
from gesso.tasks.skills.sums.stories import THINGS

COLUMN = read_phrasings("sums_kinds", "column")
LABELLED = read_phrasings("sums_kinds", "labelled")
INLINE = read_phrasings("sums_kinds", "inline")
_NAMES = ("item", "name", "product", "thing", "article", "what")
_COLUMNS = (
    "amount", "price", "cost", "quantity", "qty", "count", "score", "number", "stock", "sold", "weight", "points",
    "pieces", "value", "euros", "hours", "minutes", "km",
)  # fmt: skip
_LINES = ("{}: {}", "{}: {}", "- {}: {}", "{} {}", "{} - {}", "{},{}", "{} = {}", "* {} {}", "{}\t{}", "{} | {}")
_WORD_SHARE = 0.4
"""Names that are any words; the others are things that people count."""


def draw_column(slots: Slots, write: Callable[[int], str]) -> tuple[str, str]:  # noqa: ARG001
    """Draws a table as CSV or Markdown with one or two columns of numbers, of which one is to be summed."""
    rng = slots.rng
    column, other = rng.sample(_COLUMNS, 2)
    items, numbers = _rows(slots)
    head, rows = [rng.choice(_NAMES), column], [[item, str(n)] for item, n in zip(items, numbers, strict=True)]
    if rng.random() < 0.2:
        place = rng.randint(1, 2)
        head.insert(place, other)
        for row in rows:
            row.insert(place, str(draw_small(rng, 1)))
    if rng.random() < 0.15:
        head = [name.capitalize() for name in head]
        column = column.capitalize()
    lines = [head, *rows]
    if rng.random() < 0.3:
        drawn = [f"| {' | '.join(line)} |" for line in lines]
        drawn.insert(1, "|" + "---|" * len(head))
    else:
        sign = rng.choice((",", ",", ",", ";", "\t", ", "))
        drawn = [sign.join(line) for line in lines]
    return slots.choice(COLUMN, col=column, data="\n".join(drawn)), str(sum(numbers))


def draw_labelled(slots: Slots, write: Callable[[int], str]) -> tuple[str, str]:  # noqa: ARG001
    """Draws lines of a name and a number each, and asks for the sum of the numbers."""
    items, numbers = _rows(slots)
    form = slots.rng.choice(_LINES)
    data = "\n".join(form.format(item, number) for item, number in zip(items, numbers, strict=True))
    return slots.choice(LABELLED, data=data), str(sum(numbers))


def draw_inline(slots: Slots, write: Callable[[int], str]) -> tuple[str, str]:
    """Draws things with their numbers in one sentence, and asks how many there are."""
    items, numbers = _rows(slots, plural=True)
    numbers = [max(number, 2) for number in numbers]
    shown = [f"{write(number)} {item}" for item, number in zip(items, numbers, strict=True)]
    last = slots.rng.choice((" and ", " and ", ", ", " + "))
    data = (" + " if last == " + " else ", ").join(shown[:-1]) + last + shown[-1]
    return slots.choice(INLINE, data=data), str(sum(numbers))


def _rows(slots: Slots, *, plural: bool = False) -> tuple[list[str], list[int]]:
    """Draws two to four names and a small number each."""
    rng = slots.rng
    count = rng.choice((2, 3, 3, 3, 4))
    found: dict[str, None] = {}
    while len(found) < count:
        found[slots.choice(THINGS) if plural or rng.random() >= _WORD_SHARE else slots.word()] = None
    most = rng.choice((10, 20, 20, 50, 100))
    return list(found), [rng.randint(1, most) for _ in range(count)]
