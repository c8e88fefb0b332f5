"""Asks to write dates in another form, and to read parts of them."""

import calendar
import re
from typing import ClassVar

from gesso.tasks.base import Example
from gesso.tasks.skills.skill import Skill
from gesso.tasks.skills.slots import Slots, read_phrasings

_MONTHS = tuple(calendar.month_name)[1:]
_WEEKDAYS = tuple(calendar.day_name)
_NAMING = ("a form with the month's name", "a form with the month as a word")
_FORMS = {
    "iso": (
        ("ISO format", "the form YYYY-MM-DD", "ISO 8601", "YYYY-MM-DD", "year-month-day"),
        "{y:04d}-{m:02d}-{d:02d}",
    ),
    "dots": (("the form DD.MM.YYYY", "DD.MM.YYYY", "the form DD.MM.YYYY", "day.month.year"), "{d:02d}.{m:02d}.{y:04d}"),
    "slashes": (
        ("the form MM/DD/YYYY", "MM/DD/YYYY", "American numbers (MM/DD/YYYY)", "month/day/year"),
        "{m:02d}/{d:02d}/{y:04d}",
    ),
    "words": (
        (
            "words like 5 March 2021",
            "the form 5 March 2021",
            "the form day month year",
            *_NAMING,
        ),
        "{d} {month} {y}",
    ),
    "american": (("words like March 5, 2021", "the form March 5, 2021"), "{month} {d}, {y}"),
}
_FORM = read_phrasings("dates", "form")
_PART = read_phrasings("dates", "part")
_NEXT = read_phrasings("dates", "next")
_WEEKDAY = read_phrasings("dates", "weekday")
_SIDES = {
    True: {
        "side": "after", "follows": "follows", "later": "later", "move": "forward", "turn": "next",
        "add": "Add one day to", "tomorrow": "will it be tomorrow",
    },
    False: {
        "side": "before", "follows": "precedes", "later": "earlier", "move": "back", "turn": "previous",
        "add": "Subtract one day from", "tomorrow": "was it yesterday",
    },
}  # fmt: skip


class Dates(Skill):
    """Asks such as `Write 5 March 2021 in ISO format.` -> `2021-03-05`; `Which day comes after Monday?` ->
    `Tuesday`."""

    name = "dates"
    phrasings: ClassVar = {"form": _FORM, "part": _PART, "next": _NEXT, "weekday": _WEEKDAY}

    def draw(self, slots: Slots) -> Example:
        """Draws a date of the years 1000 to 2999, or a day of the week."""
        rng = slots.rng
        kind = rng.choices(("form", "part", "next", "weekday"), (0.5, 0.2, 0.18, 0.12))[0]
        if kind == "weekday":
            return self._weekday(slots)
        year, month = rng.randint(1000, 2999), rng.randint(1, 12)
        if rng.random() < 0.6:
            year = rng.randint(1900, 2059)
        day = rng.randint(1, calendar.monthrange(year, month)[1])
        old, new = rng.sample(sorted(_FORMS), 2)
        written = _write(old, year, month, day)
        if kind == "form":
            # A date with the month's name is not asked to have it.
            names = [name for name in _FORMS[new][0] if old != "american" or name not in _NAMING]
            ask = slots.choice(_FORM, date=written, form=rng.choice(names))
            return Example(self.name, slots.frame(ask), _write(new, year, month, day), kind=slots.kind(kind))
        if kind == "part":
            part, answer = rng.choice((("year", str(year)), ("month", _MONTHS[month - 1]), ("day", str(day))))
            return Example(self.name, slots.question(_PART, part=part, date=written), answer, kind=slots.kind(kind))
        after = rng.random() < 0.5
        prompt = slots.question(_NEXT, date=written, **_SIDES[after])
        return Example(self.name, prompt, _write(old, *_step(year, month, day, after)), kind=slots.kind(kind))

    def _weekday(self, slots: Slots) -> Example:
        rng = slots.rng
        place, after = rng.randrange(7), rng.random() < 0.6
        count = rng.randint(2, 9)
        when = f"will it be in {count} days" if after else f"was it {count} days ago"
        text = slots.question(_WEEKDAY, day=_WEEKDAYS[place], count=count, when=when, **_SIDES[after])
        moved = count if re.search(rf"\b{count} days", text) else 1
        answer = _WEEKDAYS[(place + (moved if after else -moved)) % 7]
        return Example(self.name, text, answer, kind=slots.kind("weekday"))


def _write(form: str, year: int, month: int, day: int) -> str:
    return _FORMS[form][1].format(y=year, m=month, d=day, month=_MONTHS[month - 1])


def _step(year: int, month: int, day: int, after: bool) -> tuple[int, int, int]:
    """The date a day later or earlier."""
    if after:
        if day < calendar.monthrange(year, month)[1]:
            return year, month, day + 1
        return (year, month + 1, 1) if month < 12 else (year + 1, 1, 1)
    if day > 1:
        return year, month, day - 1
    year, month = (year, month - 1) if month > 1 else (year - 1, 12)
    return year, month, calendar.monthrange(year, month)[1]
