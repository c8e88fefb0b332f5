"""Writes dates in the forms that people use, and names the forms as they do."""

import calendar
import datetime
import random
from dataclasses import dataclass

MONTHS = tuple(calendar.month_name)[1:]
_SHORT = tuple(calendar.month_abbr)[1:]


@dataclass(frozen=True, slots=True)
class DateForm:
    """Holds a way of writing dates, and how a request may call it; no names where it is only read."""

    pattern: str
    names: tuple[str, ...] = ()
    weight: float = 1.0
    day_first: bool = False
    """Whether only days above 12 tell that it is the day which stands first."""

    def write(self, date: datetime.date) -> str:
        """Returns the date in this form."""
        return self.pattern.format(
            y=date.year, m=date.month, d=date.day, month=MONTHS[date.month - 1], short=_SHORT[date.month - 1],
            th=_ordinal(date.day),
        )  # fmt: skip


_FORMS = (
    DateForm(
        "{y:04d}-{m:02d}-{d:02d}",
        ("ISO format", "ISO format", "ISO", "ISO form", "the form YYYY-MM-DD", "ISO 8601", "YYYY-MM-DD", "yyyy-mm-dd",
         "year-month-day", "an ISO date"),
        4,
    ),
    DateForm(
        "{d:02d}.{m:02d}.{y:04d}",
        ("the form DD.MM.YYYY", "DD.MM.YYYY", "dd.mm.yyyy", "German style (DD.MM.YYYY)", "day.month.year"),
        1.5,
    ),
    DateForm(
        "{m:02d}/{d:02d}/{y:04d}",
        ("the form MM/DD/YYYY", "MM/DD/YYYY", "mm/dd/yyyy", "American numbers (MM/DD/YYYY)", "month/day/year",
         "US format (MM/DD/YYYY)"),
        1.5,
    ),
    DateForm(
        "{d:02d}/{m:02d}/{y:04d}",
        ("the form DD/MM/YYYY", "DD/MM/YYYY", "dd/mm/yyyy", "British numbers (DD/MM/YYYY)", "day/month/year"),
        1.2,
        day_first=True,
    ),
    DateForm(
        "{d} {month} {y}",
        ("words like 5 March 2021", "the form 5 March 2021", "the form day month year", "day month year order",
         "British style", "the British way with the month as a word", "a form with the month's name",
         "a form with the name of the month"),
        3,
    ),
    DateForm(
        "{month} {d}, {y}",
        ("words like March 5, 2021", "the form March 5, 2021", "American style", "the American way", "US style",
         "the form month day, year"),
        2.5,
    ),
    DateForm("{y:04d}/{m:02d}/{d:02d}", ("YYYY/MM/DD", "the form YYYY/MM/DD", "slashes with the year first"), 0.8),
    DateForm("{y:04d}{m:02d}{d:02d}", ("YYYYMMDD", "the form YYYYMMDD", "yyyymmdd", "eight digits (YYYYMMDD)"), 0.7),
    DateForm("{d:02d}-{m:02d}-{y:04d}", ("DD-MM-YYYY", "the form DD-MM-YYYY", "dd-mm-yyyy"), 0.6, day_first=True),
    DateForm("{d} {short} {y}", ("the form 5 Mar 2021", "a short form like 5 Mar 2021"), 1),
    DateForm("{month} {th}, {y}", ("words like March 5th, 2021", "the form March 5th, 2021",), 0.7),
    DateForm("{th} of {month} {y}", ("words like 5th of March 2021", "the form 5th of March 2021"), 0.6),
)  # fmt: skip
_READ = (
    DateForm("{th} {month} {y}"),
    DateForm("the {th} of {month} {y}"),
    DateForm("{short} {d}, {y}"),
    DateForm("{d}-{short}-{y}", weight=0.7),
    DateForm("{month} {d} {y}"),
    DateForm("{d}.{m}.{y}", weight=0.7),
    DateForm("{y}.{m:02d}.{d:02d}", weight=0.3),
    DateForm("{d} {month}, {y}", weight=0.5),
)
"""Forms that nobody asks for by name."""


def draw_form(rng: random.Random, *, given: bool = False, date: datetime.date | None = None) -> DateForm:
    """Draws a form.

    Args:
        given: for a date that a prompt gives, which may be in any form.
        date: the date that it gives; one in numbers whose order it does not tell is not written with the day first.
    """
    forms: list[DateForm] = [*_FORMS, *(_READ if given else ())]
    if given and (date is None or date.day < 13):
        forms = [form for form in forms if not form.day_first]
    return rng.choices(forms, [form.weight for form in forms])[0]


def _ordinal(day: int) -> str:
    ending = "th" if 10 < day < 14 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
    return f"{day}{ending}"
