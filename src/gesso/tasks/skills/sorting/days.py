"""Draws what is sorted by time: dates, times of a day, years, dated events, and what has an order that all know."""

import datetime
from collections.abc import Callable
from random import Random

from gesso.tasks.skills.layouts import COMMAS, Layout, draw_layout
from gesso.tasks.skills.lexicon import is_unseen
from gesso.tasks.skills.patterns import Phrasings, read_phrasings
from gesso.tasks.skills.slots import Slots
from gesso.tasks.skills.sorting.lists import LINE_LAYOUTS, Sorted, in_order
from gesso.tasks.skills.wide_layouts import draw_number_layout, draw_wide_layout

_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_DATES: tuple[tuple[str, Callable[[datetime.date], str]], ...] = (
    ("iso", lambda date: date.isoformat()),
    ("iso", lambda date: date.isoformat()),
    ("iso", lambda date: date.isoformat()),
    ("iso", lambda date: date.isoformat()),
    ("iso", lambda date: date.isoformat()),
    ("iso", lambda date: date.isoformat()),
    ("slashes", lambda date: f"{date:%Y/%m/%d}"),
    ("points", lambda date: f"{date:%d.%m.%Y}"),
    ("words", lambda date: f"{date.day} {_MONTHS[date.month - 1]} {date.year}"),
    ("words", lambda date: f"{date.day} {_MONTHS[date.month - 1][:3]} {date.year}"),
    ("comma", lambda date: f"{_MONTHS[date.month - 1]} {date.day}, {date.year}"),
    ("comma", lambda date: f"{_MONTHS[date.month - 1][:3]} {date.day}, {date.year}"),
)
"""How dates are written; what has spaces or a comma in it is for some layouts only."""
_SAME_YEAR: tuple[Callable[[datetime.date], str], ...] = (
    lambda date: f"{_MONTHS[date.month - 1]} {date.day}",
    lambda date: f"{_MONTHS[date.month - 1][:3]} {date.day}",
    lambda date: f"{date.day} {_MONTHS[date.month - 1]}",
    lambda date: f"{date.day} {_MONTHS[date.month - 1][:3]}",
)
_EVENTS = ("{name}: {date}", "{name} - {date}", "{name} {date}", "{date} {name}", "{date}: {name}", "{date} - {name}",
           "{name} ({date})")  # fmt: skip
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_NUMBER_WORDS = (
    "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen",
    "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty",
)  # fmt: skip
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_COUNTS, _COUNT_WEIGHTS = (3, 4, 5, 6), (0.48, 0.3, 0.15, 0.07)
_SECTIONS = {
    (name, down): read_phrasings("sorting", f"{name.replace(' ', '_')}_{'down' if down else 'up'}")
    for name in ("dates", "times", "years", "events", "number words")
    for down in (False, True)
}
_NAMED = {name: read_phrasings("sorting", name) for name in ("months", "weekdays", "ordinals")}
DAY_SECTIONS: dict[str, Phrasings] = {
    **{f"{name} down" if down else name: phrasings for (name, down), phrasings in _SECTIONS.items()},
    **_NAMED,
}


def dates(slots: Slots, down: bool) -> Sorted:
    """A few dates of one form, times of a day or years, most often far from each other."""
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


def events(slots: Slots, down: bool) -> Sorted:
    """What happened when, by the date or the year."""
    rng = slots.rng
    count = rng.choices(_COUNTS, _COUNT_WEIGHTS)[0]
    write, form = rng.choice((str, datetime.date.isoformat)), rng.choice(_EVENTS)
    if write is str:
        moments = {year: str(year) for year in _years(rng, count)}
    else:
        moments = {day.toordinal(): day.isoformat() for day in _days(rng, count)}
    names = [slots.first_name() for _ in range(count)] if rng.random() < 0.2 else slots.words(count)
    texts = {
        key: form.format(name=name, date=moment) for (key, moment), name in zip(moments.items(), names, strict=True)
    }
    return in_order(texts, _SECTIONS["events", down], rng.choice((COMMAS, COMMAS, *LINE_LAYOUTS)), down=down)


def known_orders(slots: Slots, down: bool) -> Sorted:
    """Months, days of the week from Monday on, ordinals and numbers in words, in the order that they have."""
    rng = slots.rng
    count = rng.choices(_COUNTS, _COUNT_WEIGHTS)[0]
    layout = draw_layout(rng) if rng.random() < 0.75 else draw_wide_layout(rng, numbered=True)
    form = rng.random()
    if form < 0.35:
        section, names, down = _NAMED["months"], _short(rng, _MONTHS), False
    elif form < 0.65:
        section, names, down = _NAMED["weekdays"], _short(rng, _WEEKDAYS), False
    elif form < 0.75:
        section, names, down = _NAMED["ordinals"], _ORDINALS, False
    else:
        section = _SECTIONS["number words", down]
        names = _NUMBER_WORDS[: rng.choice((10, 12, 20))]
    places = rng.sample(range(len(names)), count)
    return in_order({place: names[place] for place in places}, section, layout, down=down)


def _short(rng: Random, names: tuple[str, ...]) -> tuple[str, ...]:
    """The names as they are, their first three letters, or those in small letters that may be trained on."""
    form = rng.random()
    if form < 0.65:
        return names
    if form < 0.8:
        return tuple(name[:3] for name in names)
    return tuple(name.lower() for name in names if not is_unseen(name))


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
