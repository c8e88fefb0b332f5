"""Asks whether a date is before another, for months and quarters, and for dates out of their parts."""

import datetime

from gesso.tasks.skills.dates.draws import draw_date
from gesso.tasks.skills.dates.forms import MONTHS, draw_form
from gesso.tasks.skills.dates.moves import SIDES
from gesso.tasks.skills.numerals import spell
from gesso.tasks.skills.patterns import Phrasings, read_phrasings
from gesso.tasks.skills.slots import Slots

_BEFORE = read_phrasings("dates", "is before")
_MONTHS_ON = read_phrasings("dates", "months on")
_QUARTER = read_phrasings("dates", "quarter")
_PARTS = read_phrasings("dates", "from parts")
RELATIONS: dict[str, Phrasings] = {
    "is before": _BEFORE, "months on": _MONTHS_ON, "quarter": _QUARTER, "from parts": _PARTS,
}  # fmt: skip
_PART_LISTS = (
    "day {d}, month {m}, year {y}", "year {y}, month {m}, day {d}", "month {m}, day {d}, year {y}",
    "day: {d}, month: {m}, year: {y}", "year: {y}, month: {m}, day: {d}", "day={d} month={m} year={y}",
    "year={y}, month={m}, day={d}", "y={y} m={m} d={d}", "day {d}, month {name}, year {y}",
    "year {y}, month {name}, day {d}", "day: {d}, month: {name}, year: {y}", "day: {d}; month: {name}; year: {y}",
    "Day {d}, Month {name}, Year {y}", "year = {y}, month = {m}, day = {d}", "the year {y}, the month {name}, day {d}",
)  # fmt: skip


def is_before(slots: Slots) -> tuple[str, str, str]:
    """Asks whether one date is before, or after, another: yes or no."""
    rng = slots.rng
    one = draw_date(rng)
    while True:
        other = draw_date(rng)
        if rng.random() < 0.75:
            other = other.replace(year=one.year + rng.choice((0, 0, 0, 1, -1)), day=min(other.day, 28))
        if other != one:
            break
    form = draw_form(rng, given=True, date=None)
    before = rng.random() < 0.6
    words = {"side": "before" if before else "after", "earlier": "earlier" if before else "later"}
    ask = slots.choice(_BEFORE, a=form.write(one), b=form.write(other), **words)
    return slots.frame(ask), "yes" if (one < other) == before else "no", "is before"


def months_on(slots: Slots) -> tuple[str, str, str]:
    """Asks for the month some months after or before another."""
    rng = slots.rng
    month, count, after = rng.randrange(12), rng.choice((2, 2, 3, 3, 4, 5, 6, 6, 7, 8, 9, 10)), rng.random() < 0.65
    words = {"month": MONTHS[month], "n": spell(count) if rng.random() < 0.3 else str(count), **SIDES[after]}
    answer = MONTHS[(month + (count if after else -count)) % 12]
    return slots.frame(slots.choice(_MONTHS_ON, **words)), answer, "months on"


def quarter_of(slots: Slots) -> tuple[str, str, str]:
    """Asks for the quarter of a date or a month, which is named as Q1 is."""
    rng = slots.rng
    date = draw_date(rng)
    shown = MONTHS[date.month - 1]
    if rng.random() < 0.6:
        shown = draw_form(rng, given=True, date=date).write(date)
    elif rng.random() < 0.3:
        shown = f"{shown} {date.year}"
    return slots.frame(slots.choice(_QUARTER, date=shown)), f"Q{(date.month + 2) // 3}", "quarter"


def date_of_parts(slots: Slots) -> tuple[str, str, str]:
    """Gives day, month and year one by one, for a date in a form."""
    rng = slots.rng
    date: datetime.date = draw_date(rng)
    parts = rng.choice(_PART_LISTS).format(y=date.year, m=date.month, d=date.day, name=MONTHS[date.month - 1])
    new = draw_form(rng)
    ask = slots.choice(_PARTS, parts=parts, form=new.name(rng))
    return slots.frame(ask), new.write(date), "from parts"
