"""Asks for the days of the week of dates, for the ends and lengths of months and years, and for ages."""

import calendar
import datetime

from gesso.tasks.skills.dates.draws import draw_date, draw_year, length
from gesso.tasks.skills.dates.forms import MONTHS, DateForm, draw_form, draw_month_form
from gesso.tasks.skills.patterns import Phrasings, read_phrasings
from gesso.tasks.skills.slots import Slots

WEEKDAYS = tuple(calendar.day_name)
_DAY_OF = read_phrasings("dates", "day of")
_ENDS = read_phrasings("dates", "ends")
_MONTH_FORM = read_phrasings("dates", "month form")
_LENGTH = read_phrasings("dates", "length")
_LEAP = read_phrasings("dates", "leap")
_NEXT_LEAP = read_phrasings("dates", "next leap")
_MONTH = read_phrasings("dates", "month")
_NUMBER = read_phrasings("dates", "number")
_NAMED = read_phrasings("dates", "named")
_YEAR_LENGTH = read_phrasings("dates", "year length")
_EXISTS = read_phrasings("dates", "exists")
_AGE = read_phrasings("dates", "age")
COUNTS: dict[str, Phrasings] = {
    "day of": _DAY_OF, "ends": _ENDS, "month form": _MONTH_FORM, "length": _LENGTH, "leap": _LEAP,
    "next leap": _NEXT_LEAP, "month": _MONTH, "number": _NUMBER, "named": _NAMED, "year length": _YEAR_LENGTH,
    "exists": _EXISTS, "age": _AGE,
}  # fmt: skip
_KINDS = {"length": 0.33, "leap": 0.21, "month": 0.13, "number": 0.12, "named": 0.1, "year length": 0.03,
          "next leap": 0.04, "exists": 0.04}  # fmt: skip
_SIDES = {True: {"side": "after", "follows": "follows"}, False: {"side": "before", "follows": "precedes"}}


def day_of_date(slots: Slots) -> tuple[str, str, str]:
    """Asks on which day of the week a date falls, most often one of these decades."""
    rng = slots.rng
    date = draw_date(rng)
    if date.year < 1900 or rng.random() < 0.6:
        date = date.replace(year=rng.randint(1995, 2030), day=min(date.day, 28))
    day = rng.choices((date, date.replace(month=1, day=1), date.replace(month=12, day=rng.choice((24, 25, 31)))),
                      (0.85, 0.06, 0.09))[0]  # fmt: skip
    form = draw_form(rng, given=True, date=day)
    return slots.question(_DAY_OF, date=form.write(day)), WEEKDAYS[day.weekday()], "day of"


def end_of_month(slots: Slots) -> tuple[str, str, str]:
    """Asks for the first or the last day of a month as a date."""
    rng = slots.rng
    year, month = draw_year(rng), rng.choice((rng.randint(1, 12), rng.randint(1, 12), 2))
    last = rng.random() < 0.8
    date = datetime.date(year, month, length(year, month) if last else 1)
    old = draw_month_form(rng, given=True)
    new = draw_form(rng)
    ask = slots.choice(_ENDS, end="last" if last else "first", month=old.write(date), form=new.name(rng))
    return slots.frame(ask), new.write(date), "ends"


def form_of_month(slots: Slots) -> tuple[str, str, str]:
    """Asks for a month of a year in another form."""
    rng = slots.rng
    date = draw_date(rng)
    old, new = draw_month_form(rng, given=True), draw_month_form(rng)
    while new.pattern == old.pattern:
        new = draw_month_form(rng)
    ask = slots.choice(_MONTH_FORM, month=old.write(date), form=new.name(rng))
    return slots.frame(ask), new.write(date), "month form"


def of_months(slots: Slots) -> tuple[str, str, str]:
    """Asks for lengths, numbers and neighbours of months, and for leap years."""
    rng = slots.rng
    month = rng.randint(1, 12)
    kind = rng.choices(tuple(_KINDS), tuple(_KINDS.values()))[0]
    if kind in ("leap", "year length", "next leap"):
        return _of_years(slots, kind)
    if kind == "exists":
        return _exists(slots)
    if kind == "month":
        after = rng.random() < 0.5
        prompt = slots.frame(slots.choice(_MONTH, month=MONTHS[month - 1], **_SIDES[after]))
        return prompt, MONTHS[(month - 1 + (1 if after else -1)) % 12], kind
    if kind in ("number", "named"):
        number = rng.choice((str(month), f"{month:02d}")) if kind == "named" else ""
        asks, answer = (_NAMED, MONTHS[month - 1]) if number else (_NUMBER, str(month))
        return slots.frame(slots.choice(asks, month=MONTHS[month - 1], number=number)), answer, kind
    year = _leapish_year(slots)
    if rng.random() < 0.3:
        month = 2
    named = MONTHS[month - 1]
    if month == 2 or rng.random() < 0.5:
        named = rng.choice(
            ("{month} {y}", "{month} {y}", "{month} {y}", "{short} {y}", "{y:04d}-{m:02d}", "{m:02d}/{y}")
        )
        named = DateForm(named).write(datetime.date(year, month, 1))
    return slots.frame(slots.choice(_LENGTH, month=named)), str(length(year, month)), kind


def _leapish_year(slots: Slots) -> int:
    """A year, most often of these decades, half of them leap years, centuries now and then."""
    rng = slots.rng
    if rng.random() < 0.12:
        return rng.randrange(1600, 2501, 100)
    year = rng.randint(1980, 2040) if rng.random() < 0.6 else rng.randint(1700, 2199)
    return year - year % 4 if rng.random() < 0.35 else year


def _of_years(slots: Slots, kind: str) -> tuple[str, str, str]:
    rng = slots.rng
    year = _leapish_year(slots)
    if kind == "leap":
        return slots.frame(slots.choice(_LEAP, year=year)), "yes" if calendar.isleap(year) else "no", kind
    if kind == "year length":
        return slots.frame(slots.choice(_YEAR_LENGTH, year=year)), str(365 + calendar.isleap(year)), kind
    after = rng.random() < 0.65
    found = year + (1 if after else -1)
    while not calendar.isleap(found):
        found += 1 if after else -1
    words = {"turn": "next", "side": "after"} if after else {"turn": "previous", "side": "before"}
    return slots.frame(slots.choice(_NEXT_LEAP, year=year, **words)), str(found), kind


def _exists(slots: Slots) -> tuple[str, str, str]:
    rng = slots.rng
    year, month = _leapish_year(slots), rng.choice((2, 2, rng.randint(1, 12)))
    day = rng.choice((28, 29, 29, 30, 31))
    written = rng.choice((f"{day} {MONTHS[month - 1]} {year}", f"{MONTHS[month - 1]} {day}, {year}",
                          f"{year}-{month:02d}-{day}"))  # fmt: skip
    return slots.frame(slots.choice(_EXISTS, date=written)), "yes" if day <= length(year, month) else "no", "exists"


def age_on_date(slots: Slots) -> tuple[str, str, str]:
    """Asks for the full years between a birth and a later date."""
    rng = slots.rng
    born = draw_date(rng)
    born = born.replace(year=rng.randint(1930, 2020), day=min(born.day, 28))
    years, other = rng.randint(1, 90), draw_date(rng)
    on = other.replace(year=born.year + years, day=min(other.day, 28))
    if rng.random() < 0.3:
        on = born.replace(year=born.year + years)
    age = years - ((on.month, on.day) < (born.month, born.day))
    form = draw_form(rng, given=True)
    words = {"name": slots.first_name(), "a": form.write(born), "b": form.write(on)}
    return slots.frame(slots.choice(_AGE, **words)), str(age), "age"
