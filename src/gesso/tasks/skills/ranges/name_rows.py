"""Draws rows of what is no plain number: days, months, years, times, dates, ordinals, letters, labels."""

import string
from collections.abc import Callable
from datetime import date, timedelta

from gesso.tasks.skills.dates.forms import MONTHS, ordinal
from gesso.tasks.skills.layouts import Layout
from gesso.tasks.skills.numerals import spell
from gesso.tasks.skills.patterns import Phrasings, read_phrasings
from gesso.tasks.skills.ranges.rows import Row
from gesso.tasks.skills.slots import Slots

NAME_PHRASINGS: dict[str, Phrasings] = {
    name: read_phrasings(file, name)
    for file, names in (
        ("ranges", ("names", "labels", "years", "other letters")),
        ("ranges_kinds", ("times", "dates", "ordinals")),
    )
    for name in names
}
_DAYS: tuple[str, ...] = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_LABEL_FORMS = (
    "{word}_{n:03}", "{word}_{n:02}", "{word}-{n:02}", "{word}-{n}", "{word}{n}", "{word}{n:02}", "{word}_{n}",
    "{word}{n:03}.txt", "{word}_{n:02}.png", "{word}_{n:04}.jpg", "{word}-{n}.csv", "{word}/{n}", "{Word} {n}",
    "{Word} {n}", "{word} {n}", "{letter}{n}", "{letter}{n}", "{letter}{n}", "{letter}{n:02}", "{letter}-{n}",
    "{letter}{letter}{n:03}", "{letter}{letter}-{n:02}", "#{n}", "No. {n}", "v{n}", "v1.{n}", "Q{n}", "{n}a",
    "id{n:04}", "IMG_{n:04}", "S01E{n:02}", "192.168.0.{n}", "{n:02}:00",
)  # fmt: skip
_MINUTES = (5, 10, 10, 15, 15, 15, 20, 30, 30, 30, 45, 60)
_DATE_FORMS: tuple[Callable[[date], str], ...] = (
    lambda day: day.isoformat(),
    lambda day: day.isoformat(),
    lambda day: day.strftime("%d.%m.%Y"),
    lambda day: day.strftime("%d/%m/%Y"),
    lambda day: f"{MONTHS[day.month - 1]} {day.day}",
    lambda day: f"{day.day} {MONTHS[day.month - 1]}",
    lambda day: f"{MONTHS[day.month - 1][:3]} {day.day}",
)
_FIRST_DAY = date(1980, 1, 1).toordinal()
_LAST_DAY = date(2040, 1, 1).toordinal()
_ORDINAL_WORDS = (
    "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh",
    "twelfth",
)  # fmt: skip


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
    return Row(NAME_PHRASINGS["names"], up, values, {"up": (up, None), "down": (up[::-1], None)})


def _labels(slots: Slots) -> Row:
    rng = slots.rng
    form = rng.choice(_LABEL_FORMS)
    word, letter = slots.stem(), rng.choice(string.ascii_uppercase)
    first = 1 if rng.random() < 0.5 else rng.choice((rng.randint(2, 12), rng.randint(7, 11), rng.randint(10, 120)))
    if form in ("Q{n}", "{n:02}:00"):
        first = rng.randint(1, 2) if form[0] == "Q" else rng.randint(0, 12)
    count = rng.randint(2, 3) if form == "Q{n}" else rng.randint(2, 9)
    if form == "{letter}{n}" and rng.random() < 0.3:
        letter = letter.lower()
    found = [form.format(n=n, word=word, Word=word.capitalize(), letter=letter) for n in range(first, first + count)]
    return Row(NAME_PHRASINGS["labels"], found, {"a": found[0], "b": found[-1]})


def _years(slots: Slots) -> Row:
    rng = slots.rng
    step = rng.choice((1, 1, 1, 1, 2, 4, 5, 10, 10))
    first = rng.randint(1800, 2040) if step < 10 else rng.randint(180, 200) * 10
    years = list(map(str, range(first, first + step * rng.randint(2, 9), step)))
    flags: dict[str, tuple[list[str], Layout | None]] = {"step": (years, None)}
    if step == 1:
        flags = {"up": (years, None), "down": (years[::-1], None)}
    return Row(NAME_PHRASINGS["years"], years, {"a": years[0], "b": years[-1], "s": step}, flags)


def _other_letters(slots: Slots) -> Row:
    rng = slots.rng
    alphabet = string.ascii_lowercase if rng.random() < 0.6 else string.ascii_uppercase
    count, first = rng.randint(3, 10), rng.randint(0, 15)
    found = list(alphabet[first : first + count])
    flags: dict[str, tuple[list[str], Layout | None]] = {
        "down": (found[::-1], None), "up": (found, None), "first": (list(string.ascii_lowercase[:count]), None),
        "last": (list(string.ascii_lowercase[-count:]), None), "other": (found[::2], None),
        "after": (list(alphabet[first + 1 : first + 1 + count]), None),
    }  # fmt: skip
    number = spell(count) if rng.random() < 0.3 else str(count)
    return Row(
        NAME_PHRASINGS["other letters"], found, {"a": found[0], "b": found[-1], "n": number, "z": found[::2][-1]}, flags
    )


def _times(slots: Slots) -> Row:
    rng = slots.rng
    step, count = rng.choice(_MINUTES), rng.randint(3, 8)
    first = rng.randint(0, 23) * 60 + rng.choice((0, 0, 0, 30, 15, 45))
    first = min(first, 24 * 60 - step * count) // 5 * 5
    width = rng.choice((1, 2))
    found = [f"{minute // 60:0{width}}:{minute % 60:02}" for minute in range(first, first + step * count, step)]
    return Row(NAME_PHRASINGS["times"], found, {"a": found[0], "b": found[-1], "s": step})


def _dates(slots: Slots) -> Row:
    rng = slots.rng
    first = date.fromordinal(rng.randint(_FIRST_DAY, _LAST_DAY))
    if rng.random() < 0.5:
        first = first.replace(day=rng.randint(26, 28))
    form = rng.choice(_DATE_FORMS)
    days = [first + timedelta(i) for i in range(rng.randint(2, 6))]
    found = list(map(form, days))
    if _unclear(days, found[0]):
        return _dates(slots)
    return Row(NAME_PHRASINGS["dates"], found, {"a": found[0], "b": found[-1]})


def _unclear(days: list[date], shown: str) -> bool:
    """Says whether the days go over the end of February without a year, or might be the first days of months."""
    if "/" in shown:
        return days[0].day < days[-1].day <= 12
    return str(days[0].year) not in shown and days[0].month == 2 and days[-1].month == 3


def _ordinals(slots: Slots) -> Row:
    rng = slots.rng
    count = rng.randint(3, 8)
    if rng.random() < 0.3:
        start = rng.randint(0, len(_ORDINAL_WORDS) - count)
        found = list(_ORDINAL_WORDS[start : start + count])
    else:
        start = rng.choice((1, 1, rng.randint(1, 20), rng.randint(8, 99)))
        found = [ordinal(n) for n in range(start, start + count)]
    return Row(NAME_PHRASINGS["ordinals"], found, {"a": found[0], "b": found[-1]})


NAME_ROWS: dict[str, Callable[[Slots], Row]] = {
    "names": _names, "labels": _labels, "years": _years, "other letters": _other_letters, "times": _times,
    "dates": _dates, "ordinals": _ordinals,
}  # fmt: skip
"""What draws each kind."""
