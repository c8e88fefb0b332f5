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
    """What stands behind "in"; `{example}` is some date in this form."""
    styles: tuple[str, ...] = ()
    """What stands behind "use" or "with"."""
    weight: float = 1.0
    day_first: bool = False
    """Whether only days above 12 tell that it is the day which stands first."""

    def write(self, date: datetime.date) -> str:
        """Returns the date in this form."""
        return self.pattern.format(
            y=date.year, m=date.month, d=date.day, month=MONTHS[date.month - 1], short=_SHORT[date.month - 1],
            th=ordinal(date.day), yy=date.year % 100,
        )  # fmt: skip

    @property
    def is_iso(self) -> bool:
        """Says whether it is the form of ISO 8601 with hyphens."""
        return self.pattern == _ISO

    def name(self, rng: random.Random, names: tuple[str, ...] = ()) -> str:
        """Draws one of its names, or of those given, with the date of an example where it has a place for it; none
        that asks for a month's name, which a date may have already, unless they are given."""
        example = datetime.date(rng.randint(1900, 2059), rng.randint(1, 12), rng.randint(1, 28))
        found = names or [name for name in self.names if "name" not in name]
        return rng.choice(found).format(example=self.write(example))


_ISO = "{y:04d}-{m:02d}-{d:02d}"
_FORMS = (
    DateForm(
        _ISO,
        ("ISO format", "ISO format", "ISO", "ISO", "ISO form", "the form YYYY-MM-DD", "ISO 8601", "YYYY-MM-DD",
         "yyyy-mm-dd", "year-month-day", "an ISO date", "the ISO standard", "ISO date format", "ISO-8601",
         "the format %Y-%m-%d", "the ISO way (YYYY-MM-DD)", "international format (YYYY-MM-DD)", "Y-M-D with zeros",
         "a sortable form (YYYY-MM-DD)"),
        ("dashes, year first", "hyphens and the year first", "year, month, day and hyphens between",
         "the ISO layout {example}"),
        4,
    ),
    DateForm(
        "{d:02d}.{m:02d}.{y:04d}",
        ("the form DD.MM.YYYY", "DD.MM.YYYY", "dd.mm.yyyy", "German style (DD.MM.YYYY)", "day.month.year",
         "the format %d.%m.%Y", "the form {example}", "European style with dots (DD.MM.YYYY)"),
        ("dots, day first", "dots and two digits for day and month, day first", "dots like {example}"),
        1.5,
    ),
    DateForm(
        "{m:02d}/{d:02d}/{y:04d}",
        ("the form MM/DD/YYYY", "MM/DD/YYYY", "mm/dd/yyyy", "American numbers (MM/DD/YYYY)", "month/day/year",
         "US format (MM/DD/YYYY)", "the format %m/%d/%Y", "US numbers, MM/DD/YYYY", "American slashes (MM/DD/YYYY)"),
        ("slashes, month first", "slashes and the month before the day", "US order with slashes (MM/DD/YYYY)"),
        1.5,
    ),
    DateForm(
        "{d:02d}/{m:02d}/{y:04d}",
        ("the form DD/MM/YYYY", "DD/MM/YYYY", "dd/mm/yyyy", "British numbers (DD/MM/YYYY)", "day/month/year",
         "the format %d/%m/%Y", "UK format (DD/MM/YYYY)", "French style (DD/MM/YYYY)"),
        ("slashes, day first", "slashes and the day before the month", "UK order with slashes (DD/MM/YYYY)"),
        1.2,
        day_first=True,
    ),
    DateForm(
        "{d} {month} {y}",
        ("words like 5 March 2021", "the form 5 March 2021", "the form day, month's name, year",
         "British style", "the British way with the month as a word", "a form with the month's name",
         "a form with the name of the month", "words like {example}", "the form {example}", "the style of {example}",
         "long form, as in {example}", "UK style ({example})"),
        ("the month as a word, day first", "the day first and the month written out", "a style like {example}"),
        3,
    ),
    DateForm(
        "{month} {d}, {y}",
        ("words like March 5, 2021", "the form March 5, 2021", "American style", "the American way", "US style",
         "the form month day, year", "words like {example}", "the form {example}", "US long form ({example})",
         "American English, as in {example}"),
        ("the month as a word, then day, comma, year", "a style like {example}", "the US order ({example})"),
        2.5,
    ),
    DateForm(
        "{y:04d}/{m:02d}/{d:02d}",
        ("YYYY/MM/DD", "the form YYYY/MM/DD", "slashes with the year first", "yyyy/mm/dd", "the format %Y/%m/%d"),
        ("slashes, year first", "slashes and put the year first", "year/month/day"),
        0.9,
    ),
    DateForm(
        "{y:04d}{m:02d}{d:02d}",
        ("YYYYMMDD", "the form YYYYMMDD", "yyyymmdd", "eight digits (YYYYMMDD)", "ISO basic format (YYYYMMDD)",
         "compact form (YYYYMMDD)", "the format %Y%m%d"),
        ("digits only, year first", "no separators, as in YYYYMMDD", "eight digits without signs, year first"),
        0.7,
    ),
    DateForm(
        "{d:02d}-{m:02d}-{y:04d}",
        ("DD-MM-YYYY", "the form DD-MM-YYYY", "dd-mm-yyyy", "Dutch style (DD-MM-YYYY)"),
        ("hyphens, day first", "dashes and the day first"),
        0.6,
        day_first=True,
    ),
    DateForm(
        "{d} {short} {y}",
        ("the form 5 Mar 2021", "a short form like 5 Mar 2021", "the form {example}", "short form ({example})"),
        ("a three-letter month, day first", "the short month, like {example}", "a style like {example}"),
        1,
    ),
    DateForm(
        "{month} {th}, {y}",
        ("words like March 5th, 2021", "the form March 5th, 2021", "words like {example}", "the style {example}"),
        ("an ordinal number ({example})", "the month's name and an ordinal, as in {example}"),
        0.8,
    ),
    DateForm(
        "{th} of {month} {y}",
        ("words like 5th of March 2021", "the form 5th of March 2021", "words like {example}", "the style {example}"),
        ("an ordinal, as in {example}", 'an ordinal and "of", like {example}'),
        0.6,
    ),
)  # fmt: skip
ISO_FORM = _FORMS[0]
_READ = (
    DateForm("{th} {month} {y}", ("the form {example}", "words like {example}"), ("an ordinal number ({example})",)),
    DateForm("the {th} of {month} {y}"),
    DateForm(
        "{short} {d}, {y}", ("the form {example}", "short US form ({example})"), ("a short month, as in {example}",)
    ),
    DateForm("{d}-{short}-{y}", ("the form {example}", "the Oracle way, {example}"), ("hyphens like {example}",), 0.7),
    DateForm("{month} {d} {y}"),
    DateForm("{d}.{m}.{y}", ("D.M.YYYY", "d.m.yyyy without zeros"), ("dots but no zeros in front, day first",), 0.7),
    DateForm("{y}.{m:02d}.{d:02d}", ("YYYY.MM.DD", "yyyy.mm.dd"), ("dots, year first",), 0.3),
    DateForm("{d} {month}, {y}", weight=0.5),
    DateForm("{short} {th}, {y}", weight=0.4),
    DateForm("{th} {short} {y}", weight=0.4),
    DateForm("{short} {d} {y}", weight=0.4),
    DateForm("{d:02d} {month} {y}", weight=0.3),
    DateForm("{y} {month} {d}", weight=0.2),
    DateForm("{y}-{short}-{d:02d}", weight=0.2),
    DateForm("{m}/{d}/{y}", weight=0.5),
    DateForm("{month} the {th}, {y}", weight=0.2),
)
"""Forms that are asked for by name more rarely, or never."""
_ASKED = (
    DateForm("{d:02d}.{m:02d}.{yy:02d}", ("DD.MM.YY", "dd.mm.yy", "the form DD.MM.YY")),
    DateForm("{d:02d}/{m:02d}/{yy:02d}", ("DD/MM/YY", "dd/mm/yy", "the form DD/MM/YY", "the format %d/%m/%y")),
    DateForm("{m:02d}/{d:02d}/{yy:02d}", ("MM/DD/YY", "mm/dd/yy", "the form MM/DD/YY", "US short form (MM/DD/YY)")),
    DateForm("{yy:02d}{m:02d}{d:02d}", ("YYMMDD", "yymmdd", "six digits (YYMMDD)")),
    DateForm("{m}/{d}/{y}", ("M/D/YYYY", "m/d/yyyy without zeros")),
)
"""Forms that are only asked for: what they stand for is lost in them, or their order is."""
_RARE = (*(form for form in _READ if form.names), *_ASKED)
_RARE_SHARE = 0.12
MONTH_FORMS = (
    DateForm("{month} {y}", ("words", "the form {example}", "words like {example}", "the form month year"), weight=2),
    DateForm(
        "{y:04d}-{m:02d}",
        ("YYYY-MM", "yyyy-mm", "ISO", "ISO format", "year-month form (YYYY-MM)", "the form YYYY-MM", "ISO (YYYY-MM)"),
        weight=3,
    ),
    DateForm("{m:02d}/{y:04d}", ("MM/YYYY", "mm/yyyy", "the form MM/YYYY")),
    DateForm("{short} {y}", ("the form {example}", "short form ({example})", "a short form like {example}")),
    DateForm("{y:04d}/{m:02d}", ("YYYY/MM", "yyyy/mm", "the form YYYY/MM"), weight=0.6),
    DateForm("{m:02d}.{y:04d}", ("MM.YYYY", "mm.yyyy", "the form MM.YYYY"), weight=0.6),
    DateForm("{y:04d}{m:02d}", ("YYYYMM", "yyyymm", "six digits (YYYYMM)"), weight=0.4),
    DateForm("{m:02d}/{yy:02d}", ("MM/YY", "mm/yy", "the form MM/YY (as on a bank card)"), weight=0.5),
)  # fmt: skip
"""Forms of a month of a year."""


def draw_form(rng: random.Random, *, given: bool = False, date: datetime.date | None = None) -> DateForm:
    """Draws a form.

    Args:
        given: for a date that a prompt gives, which may be in any form.
        date: the date that it gives; one in numbers whose order it does not tell is not written with the day first.
    """
    if not given and rng.random() < _RARE_SHARE:
        return rng.choice(_RARE)
    forms: list[DateForm] = [*_FORMS, *(_READ if given else ())]
    if given and (date is None or date.day < 13):
        forms = [form for form in forms if not form.day_first]
    return rng.choices(forms, [form.weight for form in forms])[0]


def draw_month_form(rng: random.Random, *, given: bool = False) -> DateForm:
    """Draws a form of a month of a year; one that gives all of it for a month that a prompt gives."""
    forms = [form for form in MONTH_FORMS if not given or form.weight > 0.5]
    return rng.choices(forms, [form.weight for form in forms])[0]


def ordinal(number: int) -> str:
    """Returns a number with the ending of its ordinal, as `21st`."""
    ending = "th" if 10 < number % 100 < 14 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
