"""Draws rows of numbers, letters and names of other kinds than whole numbers that are one apart."""

import random
import string
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal

from gesso.tasks.skills.dates.forms import MONTHS
from gesso.tasks.skills.layouts import COMMAS, LINES, SPACES, Layout
from gesso.tasks.skills.patterns import Phrasings, read_phrasings
from gesso.tasks.skills.slots import Slots
from gesso.tasks.skills.sums.numbers import as_said
from gesso.tasks.skills.sums.skill import spell

BY = read_phrasings("ranges", "by")
STEPS_DOWN = read_phrasings("ranges", "steps down")
DECIMALS = read_phrasings("ranges", "decimals")
PYTHON = read_phrasings("ranges", "python")
AFTER = read_phrasings("ranges", "after")
NAMES = read_phrasings("ranges", "names")
LABELS = read_phrasings("ranges", "labels")
PADDED = read_phrasings("ranges", "padded")
YEARS = read_phrasings("ranges", "years")
IN_DIGITS = read_phrasings("ranges", "in digits")
IN_WORDS = read_phrasings("ranges", "in words")
OTHER_LETTERS = read_phrasings("ranges", "other letters")
BRACKETS = Layout(", ", whole="[{}]")
_LAYOUTS = {"brackets": BRACKETS, "commas": COMMAS, "spaces": SPACES, "lines": LINES}
_BY = {
    2: ("twos", "second"), 3: ("threes", "third"), 4: ("fours", "fourth"), 5: ("fives", "fifth"), 6: ("sixes", "sixth"),
    7: ("sevens", "seventh"), 8: ("eights", "eighth"), 9: ("nines", "ninth"), 10: ("tens", "tenth"),
    20: ("twenties", "twentieth"), 50: ("fifties", "fiftieth"), 100: ("hundreds", "hundredth"),
}  # fmt: skip
_BY_STEPS = (2, 2, 3, 3, 4, 5, 5, 5, 6, 7, 8, 9, 10, 10, 10, 20, 50, 100, 100)
_DAYS: tuple[str, ...] = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_LABELS = (
    "{word}_{n:03}", "{word}_{n:02}", "{word}-{n:02}", "{word}-{n}", "{word}{n}", "{word}{n:02}", "{word}_{n}",
    "{word}{n:03}.txt", "{word}_{n:02}.png", "{word}_{n:04}.jpg", "{word}-{n}.csv", "{word}/{n}", "{Word} {n}",
    "{Word} {n}", "{word} {n}", "{letter}{n}", "{letter}{n}", "{letter}{n}", "{letter}{n:02}", "{letter}-{n}",
    "{letter}{letter}{n:03}", "{letter}{letter}-{n:02}", "#{n}", "No. {n}", "v{n}", "v1.{n}", "Q{n}", "{n}a",
    "id{n:04}", "IMG_{n:04}", "S01E{n:02}", "192.168.0.{n}", "{n:02}:00",
)  # fmt: skip
_DECIMAL_STEPS = ("0.1", "0.1", "0.2", "0.25", "0.25", "0.3", "0.5", "0.5", "0.5", "0.05", "0.01", "0.75", "1.5", "2.5")


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


def _row(start: int, step: int, count: int) -> list[int]:
    return [start + i * step for i in range(count)]


def _length(slots: Slots, most: int = 11) -> int:
    return slots.rng.randint(3, most)


def _by(slots: Slots) -> Row:
    step, rng = slots.rng.choice(_BY_STEPS), slots.rng
    start = step * rng.randint(0, 12) if rng.random() < 0.75 else rng.randint(1, 99)
    up = list(map(str, _row(start, step, _length(slots))))
    name, nth = _BY[step]
    if rng.random() < 0.2:
        name = f"{step}s"
    if step == 2 and rng.random() < 0.4:
        nth = "other"
    values: dict[str, object] = {"a": up[0], "b": up[-1], "by": name, "nth": nth}
    return Row(BY, up, values, {"up": (up, None), "down": (up[::-1], None)})


def _steps_down(slots: Slots) -> Row:
    rng = slots.rng
    step = rng.choice((2, 3, 4, 5, 5, 6, 7, 8, 9, 10, 10, 15, 20, 25, 50, 100, 100, 200, 250, 500))
    start = step * rng.randint(0, 5) if rng.random() < 0.6 else rng.randint(-step * 2, 200)
    down = list(map(str, _row(start, step, _length(slots, 10))))[::-1]
    return Row(STEPS_DOWN, down, {"a": down[0], "b": down[-1], "s": step})


def _decimals(slots: Slots) -> Row:
    rng = slots.rng
    step = Decimal(rng.choice(_DECIMAL_STEPS))
    start = rng.choice((Decimal(0), Decimal(1), Decimal(rng.randint(-3, 20)), step * rng.randint(-4, 30)))
    pointed = rng.random() < 0.4
    up = [_decimal(start + i * step, pointed=pointed) for i in range(_length(slots, 9))]
    values: dict[str, object] = {"s": str(step), "a": up[0], "b": up[-1]}
    return Row(DECIMALS, up, values, {"up": (up, None), "down": (up[::-1], None)})


def _decimal(number: Decimal, *, pointed: bool) -> str:
    """Writes a number without zeros at its end, but for one behind the point where all have a point."""
    text = f"{number.normalize() + 0:f}"
    return f"{text}.0" if pointed and "." not in text else text


def _python(slots: Slots) -> Row:
    rng = slots.rng
    step = rng.choice((1, 1, 1, 2, 2, 3, 4, 5, 10, 20, 100, -1, -1, -2, -3, -5, -10))
    start = rng.choice((0, 0, 1, rng.randint(0, 20), rng.randint(-5, 120)))
    count = rng.randint(2, 10)
    if step < 0:
        start += -step * count
    stop = start + step * count - (rng.randint(0, abs(step) - 1) * (1 if step > 0 else -1))
    numbers = list(range(start, stop, step))
    given = f"{start}, {stop}" if start or step != 1 or rng.random() < 0.3 else f"{stop}"
    given += f", {step}" if step != 1 or (", " in given and rng.random() < 0.08) else ""
    if rng.random() < 0.2:
        given = given.replace(" ", "")
    found = list(map(str, numbers))
    last = f"{start} {numbers[-1]}" if step == 1 else f"{start} {step} {numbers[-1]}"
    values: dict[str, object] = {"r": f"range({given})", "seq": f"seq {last}"}
    return Row(PYTHON, found, values, {name: (found, layout) for name, layout in _LAYOUTS.items()})


def _after(slots: Slots) -> Row:
    rng = slots.rng
    start = rng.choice((rng.randint(1, 100), slots.number(4), 10 ** rng.randint(1, 5) - rng.randint(1, 4)))
    count = rng.randint(2, 9)
    number = spell(count) if rng.random() < 0.3 else str(count)
    after, before = _row(start + 1, 1, count), _row(start - 1, -1, count)
    flags: dict[str, tuple[list[str], Layout | None]] = {
        "after": (list(map(str, after)), None),
        "next": ([str(start + 1)], None),
        "between": (list(map(str, after)), None),
        "before": (list(map(str, before)), None),
    }
    return Row(AFTER, [], {"n": number, "a": start, "b": start + count + 1, "next": start + 1}, flags)


def _names(slots: Slots) -> Row:
    rng = slots.rng
    pool, unit = rng.choice(((_DAYS, "days"), (MONTHS, "months")))
    if rng.random() < 0.2:
        pool = tuple(name[:3] for name in pool)
    elif rng.random() < 0.2:
        pool = tuple(map(str.lower, pool))
    first, count = rng.randrange(len(pool)), rng.randint(2, len(pool) - 1)
    if first + count > len(pool) and rng.random() < 0.6:
        first = len(pool) - count
    up = [pool[(first + i) % len(pool)] for i in range(count)]
    if unit == "months" and len(pool[0]) == 3 and "May" in (up[0], up[-1]):
        return _names(slots)  # Nobody knows whether the others are to be short.
    number = spell(count) if rng.random() < 0.3 else str(count)
    values: dict[str, object] = {"a": up[0], "b": up[-1], "unit": unit, "n": number}
    return Row(NAMES, up, values, {"up": (up, None), "down": (up[::-1], None)})


def _labels(slots: Slots) -> Row:
    rng = slots.rng
    form = rng.choice(_LABELS)
    word, letter = slots.stem(), rng.choice(string.ascii_uppercase)
    first = 1 if rng.random() < 0.5 else rng.choice((rng.randint(2, 12), rng.randint(7, 11), rng.randint(10, 120)))
    if form in ("Q{n}", "{n:02}:00"):
        first = rng.randint(1, 2) if form[0] == "Q" else rng.randint(0, 12)
    count = rng.randint(2, 3) if form == "Q{n}" else rng.randint(2, 9)
    if form == "{letter}{n}" and rng.random() < 0.3:
        letter = letter.lower()
    found = [form.format(n=n, word=word, Word=word.capitalize(), letter=letter) for n in range(first, first + count)]
    return Row(LABELS, found, {"a": found[0], "b": found[-1]})


def _padded(slots: Slots) -> Row:
    rng = slots.rng
    width = rng.choice((2, 3, 3, 3, 4, 5))
    first = rng.choice((1, rng.randint(1, 12), rng.randint(6, 10), rng.randint(1, 10 ** (width - 1)), 96))
    numbers = _row(first, 1, rng.randint(3, 9))
    found = [f"{number:0{width}}" for number in numbers]
    plain: dict[str, object] = {"p": numbers[0], "q": numbers[-1], "w": rng.choice((width, spell(width)))}
    return Row(PADDED, found, {"a": found[0], "b": found[-1], **plain})


def _years(slots: Slots) -> Row:
    rng = slots.rng
    step = rng.choice((1, 1, 1, 1, 2, 4, 5, 10, 10))
    first = rng.randint(1800, 2040) if step < 10 else rng.randint(180, 200) * 10
    years = list(map(str, _row(first, step, rng.randint(2, 9))))
    flags: dict[str, tuple[list[str], Layout | None]] = {"step": (years, None)}
    if step == 1:
        flags = {"up": (years, None), "down": (years[::-1], None)}
    return Row(YEARS, years, {"a": years[0], "b": years[-1], "s": step}, flags)


def _in_digits(slots: Slots) -> Row:
    start = slots.rng.choice((slots.rng.randint(0, 20), slots.rng.randint(1, 95), slots.rng.randint(90, 900)))
    numbers = _row(start, 1, _length(slots, 9))
    found = list(map(str, numbers))
    values: dict[str, object] = {
        "a": as_said(spell(numbers[0]), slots.rng),
        "b": as_said(spell(numbers[-1]), slots.rng),
    }
    return Row(IN_DIGITS, found, values, {"up": (found, None), "down": (found[::-1], None)})


def _in_words(slots: Slots) -> Row:
    start = slots.rng.choice((1, slots.rng.randint(0, 12), slots.rng.randint(1, 60)))
    numbers = _row(start, 1, slots.rng.randint(2, 8))
    found = list(map(spell, numbers))
    values: dict[str, object] = {"a": numbers[0], "b": numbers[-1]}
    return Row(IN_WORDS, found, values, {"up": (found, None), "down": (found[::-1], None)})


def _other_letters(slots: Slots) -> Row:
    rng = slots.rng
    alphabet = string.ascii_lowercase if rng.random() < 0.6 else string.ascii_uppercase
    count, first = rng.randint(2, 10), rng.randint(0, 15)
    found = list(alphabet[first : first + count])
    flags: dict[str, tuple[list[str], Layout | None]] = {
        "down": (found[::-1], None), "up": (found, None), "first": (list(string.ascii_lowercase[:count]), None),
        "last": (list(string.ascii_lowercase[-count:]), None), "other": (found[::2], None),
        "after": (list(alphabet[first + 1 : first + 1 + count]), None),
    }  # fmt: skip
    number = spell(count) if rng.random() < 0.3 else str(count)
    return Row(OTHER_LETTERS, found, {"a": found[0], "b": found[-1], "n": number, "z": found[::2][-1]}, flags)


ROWS: dict[str, tuple[float, Callable[[Slots], Row]]] = {
    "by": (0.055, _by), "steps down": (0.03, _steps_down), "decimals": (0.03, _decimals), "python": (0.06, _python),
    "after": (0.03, _after), "names": (0.04, _names), "labels": (0.04, _labels), "padded": (0.025, _padded),
    "years": (0.02, _years), "in digits": (0.02, _in_digits), "in words": (0.015, _in_words),
    "other letters": (0.02, _other_letters),
}  # fmt: skip
"""Share of each kind, and what draws it."""
PHRASINGS: dict[str, Phrasings] = {
    "by": BY, "steps down": STEPS_DOWN, "decimals": DECIMALS, "python": PYTHON, "after": AFTER, "names": NAMES,
    "labels": LABELS, "padded": PADDED, "years": YEARS, "in digits": IN_DIGITS, "in words": IN_WORDS,
    "other letters": OTHER_LETTERS,
}  # fmt: skip


def draw_border(rng: random.Random, count: int) -> int:
    """Draws where a row of numbers begins that crosses a hundred, a thousand, or ten thousands."""
    unit = rng.choice((10, 100, 100, 1000, 1000, 10_000, 100_000))
    return max(0, unit * rng.randint(1, 9) - rng.randint(0, count - 1))
