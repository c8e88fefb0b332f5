"""Asks to change one thing of a date's form: its signs, its zeros, its year, the length of its month."""

import calendar
import datetime
import random
from dataclasses import dataclass

from gesso.tasks.skills.dates.draws import draw_date
from gesso.tasks.skills.dates.forms import DateForm, draw_form
from gesso.tasks.skills.patterns import Phrasings, read_phrasings
from gesso.tasks.skills.slots import Slots

_LONG = ("{d} {month} {y}", "{month} {d}, {y}", "{th} {month} {y}", "{th} of {month} {y}", "{month} {d} {y}")
_PLAIN = (
    ("{d} {month} {y}", "{th} {month} {y}"), ("{month} {d}, {y}", "{month} {th}, {y}"),
    ("{d} {short} {y}", "{th} {short} {y}"),
)  # fmt: skip
_ZEROS = (("{d}.{m}.{y}", "{d:02d}.{m:02d}.{y}"), ("{m}/{d}/{y}", "{m:02d}/{d:02d}/{y}"),
          ("{y}-{m}-{d}", "{y}-{m:02d}-{d:02d}"))  # fmt: skip
_SIGNED = ("{d:02d}<>{m:02d}<>{y:04d}", "{y:04d}<>{m:02d}<>{d:02d}", "{y:04d}<>{m:02d}<>{d:02d}")
_SIGNS = {"-": "dashes", ".": "dots", "/": "slashes", " ": "spaces", "_": "underscores"}
_YEARS = (("{d:02d}.{m:02d}.{y}", "{d:02d}.{m:02d}.{yy:02d}"), ("{m:02d}/{d:02d}/{y}", "{m:02d}/{d:02d}/{yy:02d}"),
          ("{d:02d}/{m:02d}/{y}", "{d:02d}/{m:02d}/{yy:02d}"))  # fmt: skip
_YEARLESS = (("{d} {month} {y}", "{d} {month}"), ("{month} {d}, {y}", "{month} {d}"),
             ("{d} {short} {y}", "{d} {short}"),
             ("{y:04d}-{m:02d}-{d:02d}", "{m:02d}-{d:02d}"), ("{month} {th}, {y}", "{month} {th}"))  # fmt: skip
_SWAPPED = (("{d:02d}/{m:02d}/{y}", "{m:02d}/{d:02d}/{y}"), ("{m:02d}/{d:02d}/{y}", "{d:02d}/{m:02d}/{y}"),
            ("{d:02d}-{m:02d}-{y}", "{m:02d}-{d:02d}-{y}"), ("{d} {month} {y}", "{month} {d} {y}"))  # fmt: skip
_NUMBERED = (
    *(("{y:04d}-{m:02d}-{d:02d}", "{d} {month} {y}"),) * 2, ("{d:02d}.{m:02d}.{y}", "{d} {month} {y}"),
    ("{d:02d}/{m:02d}/{y}", "{d} {month} {y}"), ("{m:02d}/{d:02d}/{y}", "{month} {d}, {y}"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Change:
    """Holds a request, the forms before and after it, and its share."""

    asks: Phrasings
    forms: tuple[tuple[str, str], ...]
    share: float


def _change(section: str, forms: tuple[tuple[str, str], ...], share: float, *, back: bool = False) -> _Change:
    turned = tuple((new, old) for old, new in forms) if back else forms
    return _Change(read_phrasings("dates", section), turned, share)


_SHORTENED = tuple((form, form.replace("{month}", "{short}")) for form in _LONG)
_CHANGES = {
    "shorten": _change("shorten", _SHORTENED, 0.2),
    "lengthen": _change("lengthen", _SHORTENED, 0.12, back=True),
    "month word": _change("month word", _NUMBERED, 0.22),
    "ordinal": _change("ordinal", _PLAIN, 0.12),
    "cardinal": _change("cardinal", _PLAIN, 0.06, back=True),
    "zeros": _change("zeros", _ZEROS, 0.07),
    "no zeros": _change("no zeros", _ZEROS, 0.07, back=True),
    "two digits": _change("two digits", _YEARS, 0.07),
    "four digits": _change("four digits", _YEARS, 0.06, back=True),
    "no year": _change("no year", _YEARLESS, 0.08),
    "swap": _change("swap", _SWAPPED, 0.07),
    "signs": _change("signs", (), 0.16),
    "no time": _change("no time", (), 0.06),
    "no weekday": _change("no weekday", (), 0.06),
}
_STYLE = read_phrasings("dates", "style")
_ORDER = read_phrasings("dates", "order")
CHANGES = {name: change.asks for name, change in _CHANGES.items()} | {"style": _STYLE, "order": _ORDER}
_ORDERS = {
    "dmy": ("day/month/year", "day first", "DD/MM/YY", "d/m/y", "day, month, year", "the European order",
            "British order",
            "day-month-year", "DMY", "the day before the month"),
    "mdy": ("month/day/year", "month first", "MM/DD/YY", "m/d/y", "month, day, year", "the American order", "US order",
            "month-day-year", "MDY", "the month before the day"),
}  # fmt: skip


def change_style(slots: Slots) -> tuple[str, str, str]:
    """Asks for one change of a date, whose order stays."""
    rng = slots.rng
    kind = rng.choices(tuple(_CHANGES), [change.share for change in _CHANGES.values()])[0]
    change, date, values = _CHANGES[kind], draw_date(rng), {}
    if kind == "signs":
        pattern, (first, second) = rng.choice(_SIGNED), rng.sample(tuple(_SIGNS), 2)
        old, new = DateForm(pattern.replace("<>", first)), DateForm(pattern.replace("<>", second))
        values = {"old": _SIGNS[first], "new": _SIGNS[second], "sign": second if second != " " else "a space"}
    elif kind == "no time":
        new = DateForm(rng.choice(("{y:04d}-{m:02d}-{d:02d}", "{y:04d}-{m:02d}-{d:02d}", *_LONG)))
        old = DateForm(new.pattern + _time(rng, iso=new.is_iso))
    elif kind == "no weekday":
        new = draw_form(rng, given=True)
        name = calendar.day_name[date.weekday()]
        old = DateForm(f"{rng.choice((name, name, name[:3]))}, {new.pattern}")
    else:
        old, new = map(DateForm, rng.choice(change.forms))
    date = _fitting(date, kind, rng)
    return slots.frame(slots.choice(change.asks, date=old.write(date), **values)), new.write(date), kind


def _time(rng: random.Random, *, iso: bool) -> str:
    """A time of day, as it stands behind a date."""
    time = f"{rng.randrange(24):02d}:{rng.randrange(60):02d}"
    if not iso:
        return rng.choice((", ", " ", " at ")) + time
    sign, seconds = rng.choice("T "), f":{rng.randrange(60):02d}" if rng.random() < 0.6 else ""
    return f"{sign}{time}{seconds}" + rng.choice(("Z", "")) * (sign == "T")


def _fitting(date: datetime.date, kind: str, rng: random.Random) -> datetime.date:
    """A date that the change does not leave as it is, and that tells its century and its order."""
    if kind in ("two digits", "four digits"):
        date = date.replace(year=rng.randint(1950, 2029), day=min(date.day, 28))
        return date.replace(day=rng.randint(13, 28))
    if kind in ("zeros", "no zeros"):
        return date.replace(day=rng.randint(1, 9)) if date.month > 9 or rng.random() < 0.6 else date
    if kind in ("shorten", "lengthen") and date.month == 5:
        return date.replace(month=rng.choice((1, 8)))
    if kind in ("swap", "month word"):
        return date.replace(day=rng.randint(13, 28))
    return date


def name_style(slots: Slots) -> tuple[str, str, str]:
    """Asks for a form by its signs and its order, or by an example."""
    rng = slots.rng
    date = draw_date(rng)
    old, new = draw_form(rng, given=True, date=date), draw_form(rng)
    while new.pattern == old.pattern or not new.styles:
        new = draw_form(rng)
    ask = slots.choice(_STYLE, date=old.write(date), style=new.name(rng, new.styles))
    return slots.frame(ask), new.write(date), "style"


def read_in_order(slots: Slots) -> tuple[str, str, str]:
    """Gives a date in numbers, its year of two digits or four, and says whether its day or its month is first."""
    rng = slots.rng
    order = rng.choice(tuple(_ORDERS))
    short = rng.random() < 0.5
    date = draw_date(rng)
    if short:
        date = date.replace(year=rng.randint(1950, 2029), day=min(date.day, 28))
    sign, width = rng.choice("///..-"), rng.choice(("", ":02d"))
    day, month, year = f"{{d{width}}}", f"{{m{width}}}", "{yy:02d}" if short else "{y}"
    old = DateForm(sign.join((day, month, year) if order == "dmy" else (month, day, year)))
    new = draw_form(rng)
    while new.write(date) == old.write(date):
        new = draw_form(rng)
    told = rng.choice(_ORDERS[order])
    if not short:
        told = told.replace("YY", "YYYY")
    ask = slots.choice(_ORDER, date=old.write(date), order=told, form=new.name(rng))
    return slots.frame(ask), new.write(date), "order"
