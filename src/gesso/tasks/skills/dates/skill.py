"""Asks to write dates in another form, to read parts of them, and to count days, months and years."""

import datetime
import re
from typing import ClassVar

from gesso.tasks.base import Example
from gesso.tasks.skills.dates.counts import (
    COUNTS,
    WEEKDAYS,
    age_on_date,
    day_of_date,
    end_of_month,
    form_of_month,
    of_months,
)
from gesso.tasks.skills.dates.draws import draw_date, draw_last_day, moved
from gesso.tasks.skills.dates.forms import MONTHS, DateForm, draw_form
from gesso.tasks.skills.dates.styles import CHANGES, change_style, name_style, read_in_order
from gesso.tasks.skills.dates.texts import TEXTS, dates_inside, several_dates
from gesso.tasks.skills.dates.words import spoken
from gesso.tasks.skills.patterns import read_phrasings
from gesso.tasks.skills.skill import Skill, is_label
from gesso.tasks.skills.slots import Slots
from gesso.tasks.skills.sums.skill import spell

_FORM = read_phrasings("dates", "form")
_ISO = read_phrasings("dates", "iso")
_PART = read_phrasings("dates", "part")
_NEXT = read_phrasings("dates", "next")
_TOMORROW = read_phrasings("dates", "tomorrow")
_WEEKDAY = read_phrasings("dates", "weekday")
_SHIFT = read_phrasings("dates", "shift")
_PLUS = read_phrasings("dates", "plus")
_BETWEEN = read_phrasings("dates", "between")
_UNITS = read_phrasings("dates", "units between")
_EARLIER = read_phrasings("dates", "earlier")
_EARLIEST = read_phrasings("dates", "earliest")
_SIDES = {
    True: {
        "side": "after", "follows": "follows", "later": "later", "move": "forward", "turn": "next",
        "add": "Add one day to", "tomorrow": "will it be tomorrow", "verb": "Add", "preposition": "to",
        "relative": "tomorrow", "is": "is", "be": "will be", "sign": "+", "word": "plus", "make": "add",
    },
    False: {
        "side": "before", "follows": "precedes", "later": "earlier", "move": "back", "turn": "previous",
        "add": "Subtract one day from", "tomorrow": "was it yesterday", "verb": "Subtract", "preposition": "from",
        "relative": "yesterday", "is": "was", "be": "was", "sign": "-", "word": "minus", "make": "subtract",
    },
}  # fmt: skip
_CASED = ("inside", "several", "found")
"""Kinds whose data come back in the same letters."""
_SMALL_SHARE = 0.16
_DAYS = (2, 3, 4, 5, 6, 7, 7, 8, 9, 10, 10, 12, 14, 14, 15, 20, 21, 28, 30, 30, 60, 90, 100)


class Dates(Skill):
    """Asks such as `Write 5 March 2021 in ISO format.` -> `2021-03-05`; `Which day comes after Monday?` ->
    `Tuesday`."""

    name = "dates"
    phrasings: ClassVar = {
        "form": _FORM, "iso": _ISO, "part": _PART, "next": _NEXT, "tomorrow": _TOMORROW, "weekday": _WEEKDAY,
        "shift": _SHIFT, "plus": _PLUS, "between": _BETWEEN, "units between": _UNITS, "earlier": _EARLIER,
        "earliest": _EARLIEST, **TEXTS, **CHANGES, **COUNTS,
    }  # fmt: skip

    def draw(self, slots: Slots) -> Example:
        """Draws dates of the years 1000 to 2999, a month, a year or a day of the week; a part of the requests are all
        in small letters."""
        kinds = {
            self._form: 0.29, several_dates: 0.06, dates_inside: 0.065, name_style: 0.03, change_style: 0.055,
            read_in_order: 0.03, form_of_month: 0.03, self._part: 0.06, self._next: 0.12, self._shift: 0.085,
            self._weekday: 0.05, day_of_date: 0.03, self._between: 0.05, of_months: 0.085, end_of_month: 0.02,
            self._earlier: 0.035, age_on_date: 0.01,
        }  # fmt: skip
        prompt, answer, kind = slots.rng.choices(tuple(kinds), tuple(kinds.values()))[0](slots)
        if kind not in _CASED and "%" not in prompt and slots.rng.random() < _SMALL_SHARE:
            prompt = prompt.lower()
        return Example(self.name, prompt, answer, kind=slots.kind(kind))

    def grade(self, example: Example, text: str) -> bool:
        """Accepts the reference; "yes" and "no" in whatever case, with or without a mark."""
        if example.answer in ("yes", "no"):
            return is_label(text, example.answer)
        return super().grade(example, text)

    def _form(self, slots: Slots) -> tuple[str, str, str]:
        rng = slots.rng
        date = draw_date(rng)
        old, new = draw_form(rng, given=True, date=date), draw_form(rng)
        while new.pattern == old.pattern:
            new = draw_form(rng)
        # A date with the month's name is not asked to have it.
        names = tuple(name for name in new.names if "name" not in name or "{m:" in old.pattern)
        written, kind = old.write(date), "form"
        if rng.random() < 0.1:
            written, kind = spoken(date, rng), "spoken"
        elif rng.random() < 0.04 and date.year > 1900:
            written = f"{WEEKDAYS[date.weekday()]}, {written}"
        if new.is_iso and rng.random() < 0.4:
            return slots.frame(slots.choice(_ISO, date=written)), new.write(date), kind
        ask = slots.choice(_FORM, date=written, form=new.name(rng, names))
        return slots.frame(ask), new.write(date), kind

    def _part(self, slots: Slots) -> tuple[str, str, str]:
        date = draw_date(slots.rng)
        part, answer = slots.rng.choice(
            (("year", str(date.year)), ("month", MONTHS[date.month - 1]), ("day", str(date.day)))
        )
        old = draw_form(slots.rng, given=True, date=date)
        return slots.question(_PART, part=part, date=old.write(date)), answer, "part"

    def _next(self, slots: Slots) -> tuple[str, str, str]:
        """The day after or before, half of the times across the end of a month."""
        rng = slots.rng
        after = rng.random() < 0.5
        date = draw_date(rng)
        if rng.random() < 0.5:
            date = draw_last_day(rng)
            date += datetime.timedelta(0 if after else 1)
        old = draw_form(rng, given=True, date=date)
        asks = _TOMORROW if rng.random() < 0.45 else _NEXT
        prompt = slots.question(asks, date=old.write(date), **_SIDES[after])
        return prompt, old.write(date + datetime.timedelta(1 if after else -1)), "next"

    def _weekday(self, slots: Slots) -> tuple[str, str, str]:
        rng = slots.rng
        place, after = rng.randrange(7), rng.random() < 0.6
        count = rng.randint(2, 9)
        when = f"will it be in {count} days" if after else f"was it {count} days ago"
        text = slots.question(_WEEKDAY, day=WEEKDAYS[place], count=count, when=when, **_SIDES[after])
        steps = count if re.search(rf"\b{count} days", text) else 1
        return text, WEEKDAYS[(place + (steps if after else -steps)) % 7], "weekday"

    def _shift(self, slots: Slots) -> tuple[str, str, str]:
        """Some days, weeks, months or years after or before; two in five near the end of a month, as most are that
        people ask about."""
        rng = slots.rng
        date, after = draw_date(rng), rng.random() < 0.6
        unit = rng.choices(("day", "week", "month", "year"), (0.5, 0.24, 0.14, 0.12))[0]
        count = {"day": rng.choice(_DAYS), "week": rng.choice((1, 1, 1, 2, 2, 3, 4, 6)),
                 "month": rng.choice((1, 1, 2, 3, 3, 4, 6, 6, 9)), "year": rng.randint(1, 20)}[unit]  # fmt: skip
        if unit in ("day", "week") and rng.random() < 0.3:
            days = rng.randint(0, 8)
            date = draw_last_day(rng) + datetime.timedelta(-days if after else days + 1)
        old = draw_form(rng, given=True, date=date)
        shown = spell(count) if rng.random() < 0.3 else str(count)
        if count == 1 and rng.random() < 0.6:
            shown = "a"
        asks = _PLUS if rng.random() < 0.4 else _SHIFT
        words = {"n": shown, "unit": unit if count == 1 else f"{unit}s", "date": old.write(date), **_SIDES[after]}
        return (
            slots.frame(slots.choice(asks, **words)),
            old.write(moved(date, count if after else -count, unit)),
            "shift",
        )

    def _between(self, slots: Slots) -> tuple[str, str, str]:
        """Days between two dates, half of the times in the same month; or whole weeks, months or years."""
        rng = slots.rng
        first, days = draw_date(rng), rng.choice((rng.randint(1, 10), rng.randint(1, 31), rng.choice((7, 14, 30, 31))))
        if rng.random() < 0.5:
            first = first.replace(day=rng.randint(1, 14))
            days = rng.randint(1, 14)
        form = draw_form(rng, given=True, date=first)
        if rng.random() < 0.2:
            return self._units_between(slots, first.replace(day=min(first.day, 28)), form)
        ask = slots.choice(_BETWEEN, a=form.write(first), b=form.write(first + datetime.timedelta(days)))
        return slots.frame(ask), str(days), "between"

    def _units_between(self, slots: Slots, first: datetime.date, form: DateForm) -> tuple[str, str, str]:
        unit = slots.rng.choices(("week", "month", "year"), (0.5, 0.25, 0.25))[0]
        count = slots.rng.randint(2, {"week": 8, "month": 11, "year": 60}[unit])
        words = {"a": form.write(first), "b": form.write(moved(first, count, unit)), "unit": f"{unit}s"}
        return slots.frame(slots.choice(_UNITS, **words)), str(count), "units between"

    def _earlier(self, slots: Slots) -> tuple[str, str, str]:
        rng = slots.rng
        several = rng.random() < 0.2
        while True:
            dates = [draw_date(rng) for _ in range(3 if several else 2)]
            if rng.random() < 0.6:
                dates = [date.replace(year=dates[0].year, day=min(date.day, 28)) for date in dates]
            if len(set(dates)) == len(dates):
                break
        form = draw_form(rng, given=True, date=None)
        earlier = rng.random() < 0.6
        words = {"earlier": "earlier", "first": "first"} if earlier else {"earlier": "later", "first": "last"}
        answer = form.write(min(dates) if earlier else max(dates))
        shown = [form.write(date) for date in dates]
        if several:
            shown = [text if "," not in text else text.replace(",", "") for text in shown]
            words = (
                {"earliest": "earliest", "oldest": "oldest"} if earlier else {"earliest": "latest", "oldest": "newest"}
            )
            prompt = slots.frame(slots.choice(_EARLIEST, a=shown[0], b=shown[1], c=shown[2], **words))
            return prompt, answer.replace(",", ""), "earliest"
        return slots.frame(slots.choice(_EARLIER, a=shown[0], b=shown[1], **words)), answer, "earlier"
