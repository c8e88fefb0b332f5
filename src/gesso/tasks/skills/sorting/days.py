"""Draws what is sorted by time: dates, times of a day and years."""

import datetime
from collections.abc import Callable
from random import Random

from gesso.tasks.skills.dates.forms import MONTHS
from gesso.tasks.skills.layouts import COMMAS, Layout, draw_layout
from gesso.tasks.skills.patterns import Phrasings, read_phrasings
from gesso.tasks.skills.slots import Slots
from gesso.tasks.skills.sorting.lists import LINE_LAYOUTS, Sorted, in_order
from gesso.tasks.skills.wide_layouts import draw_number_layout, draw_wide_layout

_DATES: tuple[tuple[str, Callable[[datetime.date], str]], ...] = (
    ("iso", lambda date: date.isoformat()),
    ("iso", lambda date: date.isoformat()),
    ("iso", lambda date: date.isoformat()),
    ("iso", lambda date: date.isoformat()),
    ("iso", lambda date: date.isoformat()),
    ("iso", lambda date: date.isoformat()),
    ("slashes", lambda date: f"{date:%Y/%m/%d}"),
    ("points", lambda date: f"{date:%d.%m.%Y}"),
    ("words", lambda date: f"{date.day} {MONTHS[date.month - 1]} {date.year}"),
    ("words", lambda date: f"{date.day} {MONTHS[date.month - 1][:3]} {date.year}"),
    ("comma", lambda date: f"{MONTHS[date.month - 1]} {date.day}, {date.year}"),
    ("comma", lambda date: f"{MONTHS[date.month - 1][:3]} {date.day}, {date.year}"),
)
"""How dates are written; what has spaces or a comma in it is for some layouts only."""
_SAME_YEAR: tuple[Callable[[datetime.date], str], ...] = (
    lambda date: f"{MONTHS[date.month - 1]} {date.day}",
    lambda date: f"{MONTHS[date.month - 1][:3]} {date.day}",
    lambda date: f"{date.day} {MONTHS[date.month - 1]}",
    lambda date: f"{date.day} {MONTHS[date.month - 1][:3]}",
)
_COUNTS, _COUNT_WEIGHTS = (3, 4, 5, 6), (0.48, 0.3, 0.15, 0.07)
_SECTIONS = {
    (name, down): read_phrasings("sorting", f"{name}_{'down' if down else 'up'}")
    for name in ("dates", "times", "years")
    for down in (False, True)
}
DAY_SECTIONS: dict[str, Phrasings] = {
    f"{name} down" if down else name: phrasings for (name, down), phrasings in _SECTIONS.items()
}


def dates(slots: Slots, down: bool) -> Sorted:
    """Draws a few dates of one form, times of a day or years, most often far from each other."""
    rng = slots.rng
    count = rng.choices(_COUNTS, _COUNT_WEIGHTS)[0]
    form = rng.random()
    if form < 0.2:
        texts = _clock(rng, count)
        return in_order(texts, _SECTIONS["times", down], draw_wide_layout(rng, numbered=True), down=down)
    if form < 0.45:
        years = {year: str(year) for year in _years(rng, count)}
        layout = COMMAS if rng.random() < 0.5 else draw_number_layout(rng, numbered=True)
        return in_order(years, _SECTIONS["years", down], layout, down=down)
    if form < 0.53:
        write = rng.choice(_SAME_YEAR)
        texts = {day.toordinal(): write(day) for day in _days(rng, count, within_year=True)}
        return in_order(texts, _SECTIONS["dates", down], rng.choice((COMMAS, COMMAS, *LINE_LAYOUTS)), down=down)
    name, write = rng.choice(_DATES)
    layout = draw_layout(rng) if rng.random() < 0.7 else draw_wide_layout(rng, numbered=True)
    if "/" in layout.separator or (name == "words" and layout.separator == " "):
        layout = COMMAS
    if layout.separator.strip() == "-":
        layout = Layout("\n")
    if name == "comma":
        layout = rng.choice(LINE_LAYOUTS)
    texts = {day.toordinal(): write(day) for day in _days(rng, count)}
    return in_order(texts, _SECTIONS["dates", down], layout, down=down)


def _years(rng: Random, count: int) -> list[int]:
    first, span = rng.choice(((1500, 540), (1900, 130), (1900, 130), (1950, 80), (1980, 50), (2010, 20)))
    return rng.sample(range(first, first + span), count)


def _days(rng: Random, count: int, *, within_year: bool = False) -> list[datetime.date]:
    """Draws days most often of unlike years, else of unlike months, or close to each other."""
    form = 0.55 + 0.45 * rng.random() if within_year else rng.random()
    first = rng.choice((rng.randint(1960, 2030), rng.randint(2015, 2026)))
    if form < 0.55:
        years = rng.sample(range(first - 10, first + 10), count)
        return [datetime.date(year, rng.randint(1, 12), rng.randint(1, 28)) for year in years]
    if form < 0.85:
        months = rng.sample(range(1, 13), count)
        return [datetime.date(first, month, rng.randint(1, 28)) for month in months]
    start, span = datetime.date(first, 1, 1), 360 if within_year else rng.choice((60, 400))
    return [start + datetime.timedelta(days=day) for day in rng.sample(range(span), count)]


def _clock(rng: Random, count: int) -> dict[int, str]:
    """Draws times of a day: of 24 hours, or with "am" and "pm"."""
    form = rng.random()
    if form < 0.6:
        minutes = rng.sample(range(360, 1380), count) if rng.random() < 0.4 else rng.sample(range(420, 1350, 15), count)
        return {minute: f"{minute // 60:02}:{minute % 60:02}" for minute in minutes}
    half = rng.choice(("{} am|{} pm", "{}am|{}pm", "{} AM|{} PM", "{}AM|{}PM", "{} a.m.|{} p.m.")).split("|")
    found = {}
    for hour in rng.sample(range(5, 24), count):
        minute = rng.choice((0, 15, 30, 45)) if form < 0.8 else 0
        clock = f"{(hour - 1) % 12 + 1}:{minute:02}" if form < 0.8 else str((hour - 1) % 12 + 1)
        found[60 * hour + minute] = half[hour >= 12].format(clock)
    return found
