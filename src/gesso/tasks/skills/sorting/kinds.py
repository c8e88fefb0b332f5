"""Draws what is sorted beside words and whole numbers: numbers of unlike forms, things, pairs of a name and a number,
people by their last names, letters of a word, and lists in code."""

from decimal import Decimal

from gesso.tasks.skills.entries import draw_numbers
from gesso.tasks.skills.layouts import COMMAS
from gesso.tasks.skills.lexicon import draw_pseudo_word
from gesso.tasks.skills.patterns import read_phrasings
from gesso.tasks.skills.placing import placed_request
from gesso.tasks.skills.slots import Slots
from gesso.tasks.skills.sorting.lists import LINE_LAYOUTS, OF_GOODS, OF_WHOLE, Sorted
from gesso.tasks.skills.things import draw_mixed_numbers, draw_things
from gesso.tasks.skills.wide_layouts import draw_number_layout, draw_wide_layout

_PAIRS = ("{}: {}", "{}: {}", "{} - {}", "{}={}", "{} {}", "{} ({})", "{} = {}", "{}:{}")


def mixed_numbers(slots: Slots, count: int, down: bool) -> Sorted:
    """Draws numbers with a point and without, above and below zero."""
    count = max(count, 3)
    numbers = _small_numbers(slots, min(count, 6)) if slots.rng.random() < 0.5 else draw_mixed_numbers(slots, count)
    given, result = [text for _, text in numbers], [text for _, text in sorted(numbers, reverse=down)]
    return Sorted(
        _SECTIONS["numbers", down],
        given,
        result,
        draw_number_layout(slots.rng, numbered=True),
        without=rf"\bmagnitude\b|\bintegers\b|{OF_WHOLE}",
    )


def _small_numbers(slots: Slots, count: int) -> list[tuple[Decimal, str]]:
    """Draws small whole numbers of which some are below zero, or small ones with one or two places."""
    rng = slots.rng
    found: dict[Decimal, str] = {}
    below = rng.random() < 0.6
    while len(found) < count:
        if below:
            number = Decimal(rng.randint(-12 - 3 * count, 12))
        else:
            number = Decimal(rng.randint(1, 99)).scaleb(-1) if rng.random() < 0.7 else Decimal(rng.randint(0, 12))
            number += Decimal(rng.randint(1, 9)).scaleb(-2) if rng.random() < 0.2 else 0
        found.setdefault(number, f"{number:f}")
    if below and not any(number < 0 for number in found):
        return _small_numbers(slots, count)
    return list(found.items())


def things(slots: Slots, count: int, down: bool) -> Sorted:
    """Draws addresses, files, ids, names of several words, notes."""
    layout = draw_wide_layout(slots.rng, numbered=True)
    given = draw_things(slots, max(count, 3), spaced=layout.separator != " ", without=("Mixed",))
    if any(layout.separator in item for item in given):
        layout = COMMAS
    words = rf"\bwords?\b|\bletters?\b|{OF_GOODS}" if any(not item.isalpha() for item in given) else ""
    result = sorted(given, key=str.lower, reverse=down)
    return Sorted(_SECTIONS["words", down], given, result, layout, words)


def pairs(slots: Slots, count: int, down: bool) -> Sorted:
    """Draws names and numbers, to be sorted by the name or by the number."""
    rng = slots.rng
    count = max(count, 3)
    names = [slots.first_name() for _ in range(count)] if rng.random() < 0.5 else slots.words(count)
    names = list(dict.fromkeys(names))
    numbers = draw_numbers(slots, len(names), spaced=False) if rng.random() < 0.3 else []
    if not numbers or any("-" in text for _, text in numbers):
        numbers = [(Decimal(n), str(n)) for n in slots.numbers(len(names), rng.choice((2, 3)))]
    form = rng.choice(_PAIRS)
    texts = [form.format(name, text) for name, (_, text) in zip(names, numbers, strict=True)]
    layout = rng.choice((COMMAS, COMMAS, *LINE_LAYOUTS))
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
    layout = slots.rng.choice((COMMAS, COMMAS, *LINE_LAYOUTS))
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


_SECTIONS = {
    (name, down): read_phrasings("sorting", f"{name.replace(' ', '_')}_{'down' if down else 'up'}")
    for name in ("words", "numbers", "by number", "by name", "last names", "letters", "digits", "code")
    for down in (False, True)
}  # fmt: skip
KIND_SECTIONS = {
    f"{name} down" if down else name: phrasings
    for (name, down), phrasings in _SECTIONS.items()
    if name not in ("words", "numbers")
}
