"""Draws dates as people ask about them, and moves them by days, weeks, months and years."""

import calendar
import datetime
import random

_YEARS = (((1985, 2032), 0.45), ((1900, 2059), 0.35), ((1000, 2999), 0.2))
"""First and last years, and their shares: those that people ask about come most often."""


def draw_year(rng: random.Random) -> int:
    """Draws a year of 1000 to 2999, most often one of these decades."""
    first, last = rng.choices([years for years, _ in _YEARS], [share for _, share in _YEARS])[0]
    return rng.randint(first, last)


def draw_date(rng: random.Random) -> datetime.date:
    """Draws a date; one in eight is the first or the last day of its month, where counting is hard."""
    year, month = draw_year(rng), rng.randint(1, 12)
    last = length(year, month)
    day = rng.choice((1, last)) if rng.random() < 0.12 else rng.randint(1, last)
    return datetime.date(year, month, day)


def draw_last_day(rng: random.Random) -> datetime.date:
    """Draws the last day of a month: three in ten of February, two in ten of December; in February of a leap year the
    last but one now and then."""
    year = draw_year(rng)
    month = rng.choices((2, 12, rng.randint(1, 12)), (0.3, 0.2, 0.5))[0]
    if month == 2 and rng.random() < 0.5:
        year -= year % 4
    last = length(year, month)
    return datetime.date(year, month, 28 if month == 2 and rng.random() < 0.25 else last)


def length(year: int, month: int) -> int:
    """Returns the number of days of a month."""
    return calendar.monthrange(year, month)[1]


def moved(date: datetime.date, count: int, unit: str) -> datetime.date:
    """Returns the date so many days, weeks, months or years on; the last day of a shorter month where it has no such
    day."""
    if unit in ("day", "week"):
        return date + datetime.timedelta(count * (7 if unit == "week" else 1))
    months = date.year * 12 + date.month - 1 + count * (12 if unit == "year" else 1)
    year, month = divmod(months, 12)
    return datetime.date(year, month + 1, min(date.day, length(year, month + 1)))
