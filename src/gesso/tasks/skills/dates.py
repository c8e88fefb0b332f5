"""Asks to write dates in another form, to read parts of them, and to count days, months and years."""

import calendar
import datetime
import re
from typing import ClassVar

from gesso.tasks.base import Example
from gesso.tasks.skills.date_forms import MONTHS, draw_form
from gesso.tasks.skills.patterns import read_phrasings
from gesso.tasks.skills.skill import Skill, is_label
from gesso.tasks.skills.slots import Slots
from gesso.tasks.skills.sums import spell

_WEEKDAYS = tuple(calendar.day_name)
_FORM = read_phrasings("dates", "form")
_PART = read_phrasings("dates", "part")
_NEXT = read_phrasings("dates", "next")
_WEEKDAY = read_phrasings("dates", "weekday")
_SHIFT = read_phrasings("dates", "shift")
_BETWEEN = read_phrasings("dates", "between")
_LENGTH = read_phrasings("dates", "length")
_LEAP = read_phrasings("dates", "leap")
_MONTH = read_phrasings("dates", "month")
_NUMBER = read_phrasings("dates", "number")
_EARLIER = read_phrasings("dates", "earlier")
_SIDES = {
    True: {
        "side": "after", "follows": "follows", "later": "later", "move": "forward", "turn": "next",
        "add": "Add one day to", "tomorrow": "will it be tomorrow", "verb": "Add", "preposition": "to",
    },
    False: {
        "side": "before", "follows": "precedes", "later": "earlier", "move": "back", "turn": "previous",
        "add": "Subtract one day from", "tomorrow": "was it yesterday", "verb": "Subtract", "preposition": "from",
    },
}  # fmt: skip


class Dates(Skill):
    """Asks such as `Write 5 March 2021 in ISO format.` -> `2021-03-05`; `Which day comes after Monday?` ->
    `Tuesday`."""

    name = "dates"
    phrasings: ClassVar = {
        "form": _FORM, "part": _PART, "next": _NEXT, "weekday": _WEEKDAY, "shift": _SHIFT, "between": _BETWEEN,
        "length": _LENGTH, "leap": _LEAP, "month": _MONTH, "number": _NUMBER, "earlier": _EARLIER,
    }  # fmt: skip

    def draw(self, slots: Slots) -> Example:
        """Draws a date of the years 1000 to 2999, a month or a day of the week."""
        kinds = {
            self._form: 0.45, self._part: 0.12, self._next: 0.12, self._weekday: 0.08, self._shift: 0.1,
            self._between: 0.03, self._of_months: 0.06, self._earlier: 0.04,
        }  # fmt: skip
        prompt, answer, kind = slots.rng.choices(tuple(kinds), tuple(kinds.values()))[0](slots)
        return Example(self.name, prompt, answer, kind=slots.kind(kind))

    def grade(self, example: Example, text: str) -> bool:
        """Accepts the reference; "yes" and "no" in whatever case, with or without a mark."""
        if example.answer in ("yes", "no"):
            return is_label(text, example.answer)
        return super().grade(example, text)

    def _form(self, slots: Slots) -> tuple[str, str, str]:
        date = _date(slots)
        old, new = draw_form(slots.rng, given=True, date=date), draw_form(slots.rng)
        while new.pattern == old.pattern:
            new = draw_form(slots.rng)
        # A date with the month's name is not asked to have it.
        names = [name for name in new.names if "name" not in name or "{m:" in old.pattern]
        written = old.write(date)
        weekday = slots.rng.random() < 0.04 and date.year > 1900
        if weekday:
            written = f"{_WEEKDAYS[date.weekday()]}, {written}"
        ask = slots.choice(_FORM, date=written, form=slots.rng.choice(names or list(new.names)))
        return slots.frame(ask), new.write(date), "form"

    def _part(self, slots: Slots) -> tuple[str, str, str]:
        date = _date(slots)
        part, answer = slots.rng.choice(
            (("year", str(date.year)), ("month", MONTHS[date.month - 1]), ("day", str(date.day)))
        )
        old = draw_form(slots.rng, given=True, date=date)
        return slots.question(_PART, part=part, date=old.write(date)), answer, "part"

    def _next(self, slots: Slots) -> tuple[str, str, str]:
        date, after = _date(slots), slots.rng.random() < 0.5
        old = draw_form(slots.rng, given=True, date=date)
        prompt = slots.question(_NEXT, date=old.write(date), **_SIDES[after])
        return prompt, old.write(date + datetime.timedelta(1 if after else -1)), "next"

    def _weekday(self, slots: Slots) -> tuple[str, str, str]:
        rng = slots.rng
        place, after = rng.randrange(7), rng.random() < 0.6
        count = rng.randint(2, 9)
        when = f"will it be in {count} days" if after else f"was it {count} days ago"
        text = slots.question(_WEEKDAY, day=_WEEKDAYS[place], count=count, when=when, **_SIDES[after])
        moved = count if re.search(rf"\b{count} days", text) else 1
        return text, _WEEKDAYS[(place + (moved if after else -moved)) % 7], "weekday"

    def _shift(self, slots: Slots) -> tuple[str, str, str]:
        rng = slots.rng
        date, after = _date(slots), rng.random() < 0.6
        unit = rng.choices(("day", "week", "month", "year"), (0.5, 0.2, 0.15, 0.15))[0]
        count = {"day": rng.randint(2, 10), "week": rng.randint(1, 3), "month": rng.randint(1, 6),
                 "year": rng.randint(1, 20)}[unit]  # fmt: skip
        moved = _moved(date, count if after else -count, unit)
        old = draw_form(rng, given=True, date=date)
        shown = spell(count) if rng.random() < 0.3 else str(count)
        units = unit if count == 1 else f"{unit}s"
        prompt = slots.frame(slots.choice(_SHIFT, n=shown, unit=units, date=old.write(date), **_SIDES[after]))
        return prompt, old.write(moved), "shift"

    def _between(self, slots: Slots) -> tuple[str, str, str]:
        rng = slots.rng
        first = _date(slots)
        days = rng.randint(1, 30)
        form = draw_form(rng, given=True, date=first)
        second = first + datetime.timedelta(days)
        ask = slots.choice(_BETWEEN, a=form.write(first), b=form.write(second))
        return slots.frame(ask), str(days), "between"

    def _of_months(self, slots: Slots) -> tuple[str, str, str]:
        rng = slots.rng
        month, year = rng.randint(1, 12), rng.randint(1900, 2059)
        kind = rng.choice(("length", "leap", "month", "number"))
        if kind == "leap":
            return slots.frame(slots.choice(_LEAP, year=year)), "yes" if calendar.isleap(year) else "no", kind
        if kind == "month":
            after = rng.random() < 0.5
            prompt = slots.frame(slots.choice(_MONTH, month=MONTHS[month - 1], **_SIDES[after]))
            return prompt, MONTHS[(month - 1 + (1 if after else -1)) % 12], kind
        if kind == "number":
            return slots.frame(slots.choice(_NUMBER, month=MONTHS[month - 1])), str(month), kind
        named = f"{MONTHS[month - 1]} {year}" if month == 2 or rng.random() < 0.5 else MONTHS[month - 1]
        return slots.frame(slots.choice(_LENGTH, month=named)), str(calendar.monthrange(year, month)[1]), kind

    def _earlier(self, slots: Slots) -> tuple[str, str, str]:
        rng = slots.rng
        one, other = _date(slots), _date(slots)
        if rng.random() < 0.6:
            other = other.replace(year=one.year, day=min(other.day, 28))
        if one == other:
            other += datetime.timedelta(1)
        form = draw_form(rng, given=True, date=None)
        earlier = rng.random() < 0.6
        words = {"earlier": "earlier", "first": "first"} if earlier else {"earlier": "later", "first": "last"}
        prompt = slots.frame(slots.choice(_EARLIER, a=form.write(one), b=form.write(other), **words))
        return prompt, form.write(min(one, other) if earlier else max(one, other)), "earlier"


def _date(slots: Slots) -> datetime.date:
    rng = slots.rng
    year, month = rng.randint(1000, 2999), rng.randint(1, 12)
    if rng.random() < 0.7:
        year = rng.randint(1900, 2059)
    last = calendar.monthrange(year, month)[1]
    # The ends of months are where counting is hard.
    day = rng.choice((1, last)) if rng.random() < 0.12 else rng.randint(1, last)
    return datetime.date(year, month, day)


def _moved(date: datetime.date, count: int, unit: str) -> datetime.date:
    """The date so many days, weeks, months or years on; the last day of a shorter month where it has no such day."""
    if unit in ("day", "week"):
        return date + datetime.timedelta(count * (7 if unit == "week" else 1))
    months = date.year * 12 + date.month - 1 + count * (12 if unit == "year" else 1)
    year, month = divmod(months, 12)
    return datetime.date(year, month + 1, min(date.day, calendar.monthrange(year, month + 1)[1]))
