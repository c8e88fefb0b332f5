"""Draws the items of lists: words, things of several words, people, places, and numbers of every kind."""

import random
import re
from collections.abc import Callable
from decimal import Decimal

from gesso.tasks.skills.lexicon import is_unseen
from gesso.tasks.skills.slots import Slots

OF_WORDS = r"\bwords?\b|\bnames\b"
"""Patterns that are not for numbers or items of several words."""
_KINDS = ("words", "capitals", "phrases", "people", "cities", "codes")
_KIND_WEIGHTS = (0.6, 0.11, 0.12, 0.07, 0.05, 0.05)
_CODES: dict[str, Callable[[random.Random], str]] = {
    "AB-12": lambda rng: f"{_letters(rng, 2).upper()}-{rng.randint(10, 99)}",
    "A1": lambda rng: f"{_letters(rng, 1).upper()}{rng.randint(1, 9)}",
    "AB12": lambda rng: f"{_letters(rng, 2).upper()}{rng.randint(10, 99)}",
    "a1b2": lambda rng: f"{rng.getrandbits(16):04x}",
    "ab1": lambda rng: f"{_letters(rng, 2)}{rng.randint(1, 9)}",
}
"""Kinds of codes, of one length each, so that sorting them is no matter of taste."""
_NUMBERS = ("{}", "{}", "${}", "{}%", "{} kg", "{} km")


def draw_entries(slots: Slots, count: int, *, spaced: bool = True, copied: bool = False) -> list[str]:
    """Draws distinct items of one kind.

    Args:
        spaced: whether an item may be of several words.
        copied: whether a few, in training, may be of letters and signs of any kind: for what only copies them.
    """
    kind = slots.rng.choices(_KINDS, _KIND_WEIGHTS)[0]
    found: dict[str, str] = {}
    code = slots.rng.choice(tuple(_CODES))
    if kind == "words" or (kind == "phrases" and not spaced):
        return slots.items(count) if copied else slots.words(count)
    while len(found) < count:
        if kind == "capitals":
            item = slots.word().capitalize()
        elif kind == "phrases":
            item = " ".join(slots.words(slots.rng.choices((1, 2, 3), (0.3, 0.6, 0.1))[0]))
        elif kind == "people":
            item = slots.name() if spaced else slots.first_name()
        elif kind == "codes":
            item = _CODES[code](slots.rng)
            if any(is_unseen(letters) for letters in re.findall("[a-z]{3,}", item)):
                continue
        else:
            item = slots.city()
        found.setdefault(item.lower(), item)
    return list(found.values())


def draw_numbers(slots: Slots, count: int, *, spaced: bool = True) -> list[tuple[Decimal, str]]:
    """Draws distinct numbers with their texts: whole ones of up to six digits most often, or some with a point, some
    below zero, or all with the same unit, behind a space where items may be of several words."""
    rng = slots.rng
    if rng.random() < 0.65:
        return [(Decimal(n), str(n)) for n in slots.numbers(count, rng.choice((2, 3, 4, 6)))]
    places, below = rng.choice((0, 1, 1, 2)), rng.random() < 0.35
    unit = "{}" if below else rng.choice([unit for unit in _NUMBERS if spaced or " " not in unit])
    if not below and unit == "{}":
        places = places or 1
    found: dict[Decimal, str] = {}
    while len(found) < count:
        number = Decimal(slots.number(rng.choice((2, 3)) + places)).scaleb(-places)
        if below and rng.random() < 0.5:
            number = -number
        found[number] = unit.format(number)
    return list(found.items())


def _letters(rng: random.Random, count: int) -> str:
    return "".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=count))
