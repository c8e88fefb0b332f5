"""Asks for dates some days, weeks, months or years after or before others, and for how far two are apart."""

import datetime
import random

from gesso.tasks.skills.dates.draws import draw_date, draw_last_day, length, moved
from gesso.tasks.skills.dates.forms import ISO_FORM, DateForm, draw_form
from gesso.tasks.skills.numerals import spell
from gesso.tasks.skills.patterns import Phrasings, read_phrasings
from gesso.tasks.skills.slots import Slots

_SHIFT = read_phrasings("dates", "shift")
_PLUS = read_phrasings("dates", "plus")
_AHEAD = read_phrasings("dates", "ahead")
_AGO = read_phrasings("dates", "ago")
_SHIFT_AS = read_phrasings("dates", "shift as")
_BRIEF = read_phrasings("dates", "brief shift")
_TWO_DAYS = read_phrasings("dates", "two days")
_BETWEEN = read_phrasings("dates", "between")
_UNITS = read_phrasings("dates", "units between")
MOVES: dict[str, Phrasings] = {
    "shift": _SHIFT, "plus": _PLUS, "ahead": _AHEAD, "ago": _AGO, "shift as": _SHIFT_AS, "brief shift": _BRIEF,
    "two days": _TWO_DAYS, "between": _BETWEEN, "units between": _UNITS,
}  # fmt: skip
SIDES = {
    True: {
        "side": "after", "follows": "follows", "later": "later", "move": "forward", "turn": "next",
        "add": "Add one day to", "tomorrow": "will it be tomorrow", "verb": "Add", "preposition": "to",
        "relative": "tomorrow", "is": "is", "be": "will be", "sign": "+", "word": "plus", "make": "add",
    },
    False: {
        "side": "before", "follows": "precedes", "later": "earlier", "move": "back", "turn": "previous",
        "add": "Subtract one day from", "tomorrow": "was it yesterday", "verb": "Subtract", "preposition": "from",
        "relative": "yesterday", "is": "was", "be": "was", "sign": "-", "word": "minus", "make": "subtract",
    },
}  # fmt: skip
"""What requests call the time after a date, and the time before it."""
_DAYS = (2, 2, 3, 3, 4, 5, 5, 6, 7, 8, 9, 10, 10, 12, 14, 14, 15, 20, 21)
_MANY_DAYS = (25, 28, 30, 30, 30, 45, 60, 60, 90, 90, 100)
_WEEKS = (1, 1, 1, 2, 2, 2, 3, 3, 4, 6)
_MONTHS = (1, 1, 1, 2, 2, 3, 3, 4, 5, 6, 6, 9)
_YEARS = (1, 1, 2, 2, 3, 4, 5, 5, 10, 10, 18, 20, 25)
_PLAIN_FORMS = tuple(
    DateForm(pattern)
    for pattern in (*("{y:04d}-{m:02d}-{d:02d}",) * 3, *("{d} {month} {y}",) * 2, "{month} {d}, {y}", "{month} {d} {y}")
)
"""Forms that dates have most often where somebody counts with them."""
_PLAIN_SHARE = 0.5
_SAME_MONTH_SHARE, _END_SHARE, _MANY_SHARE = 0.6, 0.25, 0.12


def shifted_date(slots: Slots) -> tuple[str, str, str]:
    """Asks for the date some days, weeks, months or years after or before another: within the same month in three of
    five, past its end in most of the others."""
    rng = slots.rng
    after = rng.random() < 0.62
    unit = rng.choices(("day", "week", "month", "year"), (0.52, 0.24, 0.14, 0.1))[0]
    date, count = _start(rng, unit, after=after)
    old = _draw_form(rng, date)
    shown = spell(count) if rng.random() < 0.25 else str(count)
    if count == 1 and rng.random() < 0.5:
        shown = "a" if rng.random() < 0.6 else "one"
    found = moved(date, count if after else -count, unit)
    words = {"n": shown, "unit": unit if count == 1 else f"{unit}s", "date": old.write(date), **SIDES[after]}
    way = rng.choices(("shift", "plus", "told", "as", "brief"), (0.22, 0.31, 0.29, 0.12, 0.06))[0]
    if way == "as":
        new = draw_form(rng) if rng.random() < 0.4 else ISO_FORM
        return slots.frame(slots.choice(_SHIFT_AS, **words, form=new.name(rng))), new.write(found), "shift as"
    if way == "brief" and unit != "month":
        words["n"] = str(count)
        return slots.frame(slots.choice(_BRIEF, **words, letter=unit[0])), old.write(found), "shift"
    if way == "told":
        asks, kind = (_AHEAD, "ahead") if after else (_AGO, "ago")
        return slots.frame(slots.choice(asks, **words)), old.write(found), kind
    return slots.frame(slots.choice(_SHIFT if way == "shift" else _PLUS, **words)), old.write(found), "shift"


def two_days_on(slots: Slots) -> tuple[str, str, str]:
    """Asks for the day after tomorrow or the day before yesterday, given today's date."""
    rng = slots.rng
    after = rng.random() < 0.6
    date = draw_date(rng)
    old = _draw_form(rng, date)
    words = {"other": "the day after tomorrow" if after else "the day before yesterday", **SIDES[after]}
    found = old.write(date + datetime.timedelta(2 if after else -2))
    return slots.frame(slots.choice(_TWO_DAYS, date=old.write(date), **words)), found, "two days"


def time_between(slots: Slots) -> tuple[str, str, str]:
    """Asks for the days between two dates, most often of the same month; or for whole weeks, months or years."""
    rng = slots.rng
    first, days = draw_date(rng), rng.choice((rng.randint(1, 10), rng.randint(1, 31), rng.choice((7, 14, 30, 31))))
    if rng.random() < 0.7:
        days = rng.choice((rng.randint(1, 9), rng.randint(1, 9), rng.randint(1, 27)))
        first = first.replace(day=rng.randint(1, 28 - days))
    form = _draw_form(rng, first)
    if rng.random() < 0.06:
        return _units_between(slots, first.replace(day=min(first.day, 28)), form)
    ask = slots.choice(_BETWEEN, a=form.write(first), b=form.write(first + datetime.timedelta(days)))
    return slots.frame(ask), str(days), "between"


def _units_between(slots: Slots, first: datetime.date, form: DateForm) -> tuple[str, str, str]:
    unit = slots.rng.choices(("week", "month", "year"), (0.5, 0.25, 0.25))[0]
    count = slots.rng.randint(2, {"week": 8, "month": 11, "year": 60}[unit])
    words = {"a": form.write(first), "b": form.write(moved(first, count, unit)), "unit": f"{unit}s"}
    return slots.frame(slots.choice(_UNITS, **words)), str(count), "units between"


def _draw_form(rng: random.Random, date: datetime.date) -> DateForm:
    return rng.choice(_PLAIN_FORMS) if rng.random() < _PLAIN_SHARE else draw_form(rng, given=True, date=date)


def _start(rng: random.Random, unit: str, *, after: bool) -> tuple[datetime.date, int]:
    """A date to count from, and how many units: small numbers most often."""
    date = draw_date(rng)
    if rng.random() < 0.7:
        date = date.replace(year=rng.randint(1995, 2032), day=min(date.day, 28))
    if unit in ("month", "year"):
        return date, rng.choice(_MONTHS if unit == "month" else _YEARS)
    days, count = (7, rng.choice(_WEEKS)) if unit == "week" else (1, rng.choice(_DAYS))
    share = rng.random()
    if share < _SAME_MONTH_SHARE:
        last = length(date.year, date.month)
        while days * count > last - 2:
            count = rng.choice((1, 2, 3))
        span = days * count
        return date.replace(day=rng.randint(1, last - span) if after else rng.randint(span + 1, last)), count
    if share < _SAME_MONTH_SHARE + _END_SHARE:
        near = rng.randint(0, min(8, days * count))
        return draw_last_day(rng) + datetime.timedelta(-near if after else near + 1), count
    if unit == "day" and share > 1 - _MANY_SHARE:
        count = rng.choice(_MANY_DAYS)
    return date, count
