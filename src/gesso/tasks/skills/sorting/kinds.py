"""Draws what is sorted beside words and whole numbers: numbers of unlike forms, things, dates, times, pairs of a name
and a number, people by their last names, letters of a word, and lists in code."""

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from gesso.tasks.skills.entries import draw_numbers
from gesso.tasks.skills.layouts import COMMAS, SPACES, Layout
from gesso.tasks.skills.lexicon import draw_pseudo_word
from gesso.tasks.skills.patterns import Phrasings, read_phrasings
from gesso.tasks.skills.placing import placed_request
from gesso.tasks.skills.slots import Slots
from gesso.tasks.skills.things import draw_mixed_numbers, draw_things
from gesso.tasks.skills.wide_layouts import draw_number_layout, draw_wide_layout

_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_DATES: tuple[tuple[str, Callable[[datetime.date], str]], ...] = (
    ("iso", lambda date: date.isoformat()),
    ("iso", lambda date: date.isoformat()),
    ("slashes", lambda date: f"{date:%Y/%m/%d}"),
    ("points", lambda date: f"{date:%d.%m.%Y}"),
    ("words", lambda date: f"{date.day} {_MONTHS[date.month - 1]} {date.year}"),
    ("words", lambda date: f"{date.day} {_MONTHS[date.month - 1][:3]} {date.year}"),
    ("comma", lambda date: f"{_MONTHS[date.month - 1]} {date.day}, {date.year}"),
)
"""How dates are written; what has spaces or a comma in it is for some layouts only."""
_PAIRS = ("{}: {}", "{}: {}", "{} - {}", "{}={}", "{} {}", "{} ({})", "{} = {}", "{}:{}")
_LINES = (Layout("\n"), Layout("\n"), Layout("\n", item="- {}"), Layout("; "))


@dataclass(frozen=True, slots=True)
class Sorted:
    """Holds what is given and how it is to be, with the requests for it."""

    phrasings: Phrasings
    given: Sequence[str]
    result: Sequence[str]
    layout: Layout
    without: str = ""

    def ask(self, slots: Slots) -> tuple[str, str]:
        """Draws a prompt, and returns it with its answer."""
        data, answer = self.layout.write(self.given), self.layout.answer(self.result)
        loose = self.layout.separator == " " and self.layout.item == "{}"
        prompt = placed_request(
            slots, self.phrasings, data, count=len(self.given), loose=loose, without=self.without,
            joint=self.layout.separator,
        )  # fmt: skip
        return prompt, answer


def mixed_numbers(slots: Slots, count: int, down: bool) -> Sorted:
    """Numbers with a point and without, above and below zero."""
    numbers = draw_mixed_numbers(slots, max(count, 3))
    given, result = [text for _, text in numbers], [text for _, text in sorted(numbers, reverse=down)]
    return Sorted(
        _SECTIONS["numbers", down],
        given,
        result,
        draw_number_layout(slots.rng, numbered=True),
        without=r"\bmagnitude\b|\bintegers\b",
    )


def things(slots: Slots, count: int, down: bool) -> Sorted:
    """Addresses, files, ids, names of several words, notes."""
    layout = draw_wide_layout(slots.rng, numbered=True)
    given = draw_things(slots, max(count, 3), spaced=layout.separator != " ", without=("Mixed",))
    if any(layout.separator in item for item in given):
        layout = COMMAS
    words = r"\bwords?\b|\bletters?\b" if any(not item.isalpha() for item in given) else ""
    result = sorted(given, key=str.lower, reverse=down)
    return Sorted(_SECTIONS["words", down], given, result, layout, words)


def dates(slots: Slots, count: int, down: bool) -> Sorted:
    """Dates of one form, times of a day or years."""
    rng = slots.rng
    count = max(count, 3)
    form = rng.random()
    if form < 0.2:
        minutes = rng.sample(range(360, 1380), count) if rng.random() < 0.5 else rng.sample(range(420, 1350, 15), count)
        texts = {minute: f"{minute // 60:02}:{minute % 60:02}" for minute in minutes}
        return _ordered(texts, down, "times", draw_wide_layout(rng, numbered=True))
    if form < 0.32:
        years = {year: str(year) for year in rng.sample(range(1500, 2040), count)}
        return _ordered(
            years, down, "years", COMMAS if rng.random() < 0.6 else draw_number_layout(slots.rng, numbered=True)
        )
    name, write = rng.choice(_DATES)
    first, span = datetime.date(rng.randint(1960, 2035), 1, 1), rng.choice((60, 400, 2000, 9000))
    days = [first + datetime.timedelta(days=day) for day in rng.sample(range(span), count)]
    layout = draw_wide_layout(rng, numbered=True)
    if "/" in layout.separator or (name == "words" and layout.separator == " "):
        layout = COMMAS
    if name == "comma":
        layout = rng.choice(_LINES)
    return _ordered({day.toordinal(): write(day) for day in days}, down, "dates", layout)


def pairs(slots: Slots, count: int, down: bool) -> Sorted:
    """Names and numbers, by the name or by the number."""
    rng = slots.rng
    count = max(count, 3)
    names = [slots.first_name() for _ in range(count)] if rng.random() < 0.5 else slots.words(count)
    names = list(dict.fromkeys(names))
    numbers = draw_numbers(slots, len(names), spaced=False) if rng.random() < 0.3 else []
    if not numbers or any("-" in text for _, text in numbers):
        numbers = [(Decimal(n), str(n)) for n in slots.numbers(len(names), rng.choice((2, 3)))]
    form = rng.choice(_PAIRS)
    texts = [form.format(name, text) for name, (_, text) in zip(names, numbers, strict=True)]
    layout = rng.choice((COMMAS, COMMAS, *_LINES))
    by = "by number" if rng.random() < 0.6 else "by name"
    if by == "by number":
        order = sorted(range(len(texts)), key=lambda place: numbers[place][0], reverse=down)
    else:
        order = sorted(range(len(texts)), key=lambda place: names[place].lower(), reverse=down)
    return Sorted(_SECTIONS[by, down], texts, [texts[place] for place in order], layout)


def surnames(slots: Slots, count: int, down: bool) -> Sorted:
    """Asks for people by their last names."""
    lasts = list(dict.fromkeys(draw_pseudo_word(slots.rng, unseen=slots.unseen) for _ in range(max(count, 3))))
    people = [f"{slots.first_name()} {last.capitalize()}" for last in lasts]
    layout = slots.rng.choice((COMMAS, COMMAS, *_LINES))
    result = sorted(people, key=lambda person: person.split()[1].lower(), reverse=down)
    return Sorted(_SECTIONS["last names", down], people, result, layout)


def letters(slots: Slots, down: bool) -> tuple[str, str]:
    """Asks for the letters of a word, or the digits of a number."""
    if slots.rng.random() < 0.25:
        text, what = str(slots.rng.randint(100, 999_999)), "digits"
    else:
        text, what = slots.stem(), "letters"
    answer = "".join(sorted(text, reverse=down))
    return placed_request(slots, _SECTIONS[what, down], text), answer


def code(slots: Slots, count: int, down: bool) -> tuple[str, str]:
    """Draws a list in Python, whose value is asked for."""
    rng = slots.rng
    if rng.random() < 0.45:
        numbers = [number * rng.choice((1, 1, 1, -1)) for number in slots.numbers(count, rng.choice((1, 2, 3)))]
        numbers = list(dict.fromkeys(numbers))
        return _code(slots, list(map(str, numbers)), list(map(str, sorted(numbers, reverse=down))), down)
    quote = rng.choice(("'", '"'))
    words = [f"{quote}{word}{quote}" for word in slots.words(count)]
    return _code(slots, words, sorted(words, reverse=down), down)


def _code(slots: Slots, given: list[str], result: list[str], down: bool) -> tuple[str, str]:
    joint = "," if slots.rng.random() < 0.2 else ", "
    name = slots.identifier(1)
    text = slots.choice(_SECTIONS["code", down], list=f"[{joint.join(given)}]", name=name)
    return text.lstrip("~"), f"[{joint.join(result)}]"


def _ordered(texts: dict[int, str], down: bool, name: str, layout: Layout) -> Sorted:
    result = [texts[key] for key in sorted(texts, reverse=down)]
    layout = COMMAS if layout.separator == SPACES.separator and any(" " in text for text in result) else layout
    return Sorted(_SECTIONS[name, down], list(texts.values()), result, layout)


_SECTIONS = {
    (name, down): read_phrasings("sorting", f"{name.replace(' ', '_')}_{'down' if down else 'up'}")
    for name in ("words", "numbers", "dates", "times", "years", "by number", "by name", "last names", "letters",
                 "digits", "code")
    for down in (False, True)
}  # fmt: skip
MORE_SECTIONS = {
    f"{name} down" if down else name: phrasings
    for (name, down), phrasings in _SECTIONS.items()
    if name not in ("words", "numbers")
}
