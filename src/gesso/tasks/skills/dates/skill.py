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
from gesso.tasks.skills.dates.draws import draw_date, draw_last_day
from gesso.tasks.skills.dates.forms import MONTHS, draw_form
from gesso.tasks.skills.dates.moves import MOVES, SIDES, shifted_date, time_between, two_days_on
from gesso.tasks.skills.dates.relations import RELATIONS, date_of_parts, is_before, months_on, quarter_of
from gesso.tasks.skills.dates.styles import CHANGES, change_style, name_style, read_in_order
from gesso.tasks.skills.dates.texts import TEXTS, dates_inside, several_dates
from gesso.tasks.skills.dates.words import spoken
from gesso.tasks.skills.patterns import read_phrasings
from gesso.tasks.skills.skill import Skill, is_label
from gesso.tasks.skills.slots import Slots

_FORM = read_phrasings("dates", "form")
_ISO = read_phrasings("dates", "iso")
_PART = read_phrasings("dates", "part")
_NEXT = read_phrasings("dates", "next")
_TOMORROW = read_phrasings("dates", "tomorrow")
_WEEKDAY = read_phrasings("dates", "weekday")
_EARLIER = read_phrasings("dates", "earlier")
_EARLIEST = read_phrasings("dates", "earliest")
_CASED = ("inside", "several", "found")
"""Kinds whose data come back in the same letters."""
_SMALL_SHARE = 0.16
_AS_THE_FORM = re.compile(r"\bas (?=the (?:form|format|style)\b)")
"""Patterns have "as" before a form's name, which fits "ISO" but not "the form 5 March 2021"."""
_LEFT_OVER = re.compile(
    r"\b(?:keep|retain|save|preserve|delete|remove|erase|omit|drop|leave out|ignore|strip|cut|reduce|shorten|trim"
    r"|condense|pare|repeat|copy)\b",
    re.IGNORECASE,
)
"""Requests whose answer is what stands in the date, to the letter."""


class Dates(Skill):
    """Asks such as `Write 5 March 2021 in ISO format.` -> `2021-03-05`; `Which day comes after Monday?` ->
    `Tuesday`."""

    name = "dates"
    phrasings: ClassVar = {
        "form": _FORM, "iso": _ISO, "part": _PART, "next": _NEXT, "tomorrow": _TOMORROW, "weekday": _WEEKDAY,
        "earlier": _EARLIER, "earliest": _EARLIEST, **MOVES, **RELATIONS, **TEXTS, **CHANGES, **COUNTS,
    }  # fmt: skip

    def draw(self, slots: Slots) -> Example:
        """Draws dates of the years 1000 to 2999, a month, a year or a day of the week; a part of the requests are all
        in small letters."""
        kinds = {
            self._form: 0.275, several_dates: 0.055, dates_inside: 0.06, name_style: 0.025, change_style: 0.065,
            read_in_order: 0.025, form_of_month: 0.02, self._part: 0.055, self._next: 0.1, shifted_date: 0.19,
            self._weekday: 0.05, day_of_date: 0.005, time_between: 0.075, of_months: 0.08, end_of_month: 0.02,
            self._earlier: 0.035, age_on_date: 0.01, is_before: 0.02, months_on: 0.015, quarter_of: 0.01,
            date_of_parts: 0.02, two_days_on: 0.01,
        }  # fmt: skip
        prompt, answer, kind = slots.rng.choices(tuple(kinds), tuple(kinds.values()))[0](slots)
        prompt = _AS_THE_FORM.sub("in ", prompt)
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
        written = draw_form(slots.rng, given=True, date=date).write(date)
        while True:
            prompt = slots.question(_PART, part=part, date=written)
            if re.search(rf"(?<!\d){answer}(?!\d)", written) or not _LEFT_OVER.search(prompt):
                return prompt, answer, "part"

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
        prompt = slots.question(asks, date=old.write(date), **SIDES[after])
        return prompt, old.write(date + datetime.timedelta(1 if after else -1)), "next"

    def _weekday(self, slots: Slots) -> tuple[str, str, str]:
        rng = slots.rng
        place, after = rng.randrange(7), rng.random() < 0.6
        count = rng.randint(2, 9)
        when = f"will it be in {count} days" if after else f"was it {count} days ago"
        text = slots.question(_WEEKDAY, day=WEEKDAYS[place], count=count, when=when, **SIDES[after])
        steps = count if re.search(rf"\b{count} days", text) else 1
        return text, WEEKDAYS[(place + (steps if after else -steps)) % 7], "weekday"

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
