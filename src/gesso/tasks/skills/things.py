"""Draws the things that lists are of beside words: addresses, files, ids, names of several words, notes, and numbers of
unlike forms."""

import re
from collections.abc import Callable
from decimal import Decimal

from gesso.tasks.skills.lexicon import is_unseen
from gesso.tasks.skills.slots import Slots

_DOMAINS = ("com", "org", "net", "info", "de", "co.uk")
_ENDINGS = ("pdf", "txt", "csv", "png", "json", "html", "md", "py")
_VERBS = ("buy", "call", "fix", "pay", "wash", "clean", "find", "send", "move", "check", "feed", "sell",
          "water", "pack", "read")  # fmt: skip
_CAPITALS = "ABCDEFGHJKLMNPQRSTUVWXZ"


def _letters(slots: Slots, count: int) -> str:
    return "".join(slots.rng.choices(_CAPITALS, k=count))


def _email(slots: Slots) -> str:
    return f"{slots.stem()}@{slots.stem()}.{slots.rng.choice(_DOMAINS)}"


def _short_email(slots: Slots) -> str:
    return f"{_letters(slots, 1).lower()}@{_letters(slots, 1).lower()}.{slots.rng.choice(_DOMAINS)}"


def _file(slots: Slots) -> str:
    return f"{slots.stem()}{slots.rng.choice(('', f'_{slots.number(1)}'))}.{slots.rng.choice(_ENDINGS)}"


def _title(slots: Slots) -> str:
    words = slots.words(slots.rng.choices((1, 2, 3), (0.35, 0.45, 0.2))[0])
    return " ".join(word.capitalize() for word in words)


def _note(slots: Slots) -> str:
    rng = slots.rng
    if rng.random() < 0.3:
        return " ".join(slots.plain_sentence()[:6])
    what = rng.choice((slots.word(), f"the {slots.word()}", f"{slots.word()} {slots.word()}", slots.first_name()))
    return f"{rng.choice(_VERBS)} {what}"


def _site(slots: Slots) -> str:
    return f"{slots.rng.choice(('', 'www.'))}{slots.stem()}.{slots.rng.choice(_DOMAINS)}"


_THINGS: dict[str, Callable[[Slots], str]] = {
    "word_01": lambda slots: f"{slots.stem()}_{slots.rng.randint(1, 29):02}",
    "word-1": lambda slots: f"{slots.stem()}-{slots.rng.randint(1, 9)}",
    "word1": lambda slots: f"{slots.stem()}{slots.rng.randint(1, 9)}",
    "#tag": lambda slots: f"#{slots.stem()}",
    "@name": lambda slots: f"@{slots.stem()}",
    "a1": lambda slots: f"{_letters(slots, 1).lower()}{slots.rng.randint(1, 9)}",
    "ab1": lambda slots: f"{_letters(slots, 2).lower()}{slots.rng.randint(1, 9)}",
    "AB1": lambda slots: f"{_letters(slots, 2)}{slots.rng.randint(1, 9)}",
    "#123": lambda slots: f"#{slots.rng.randint(100, 999)}",
    "A-123": lambda slots: f"{_letters(slots, 1)}-{slots.rng.randint(100, 999)}",
    "AB-1234-C": lambda slots: f"{_letters(slots, 2)}-{slots.rng.randint(1000, 9999)}-{_letters(slots, 1)}",
    "a1b2": lambda slots: f"{slots.rng.choice('abcdef')}{slots.rng.getrandbits(12):03x}",
    "my_name": lambda slots: slots.identifier(2),
    "file": _file,
    "email": _email,
    "a@b.org": _short_email,
    "site": _site,
    "title": _title,
    "note": _note,
    "two words": lambda slots: " ".join(slots.words(2)),
    "letter": lambda slots: _letters(slots, 1).lower(),
    "Mixed": lambda slots: slots.rng.choice((slots.word(), slots.word().capitalize(), slots.word().upper())),
}
"""How each is drawn; those of one kind sort alike, whatever the sorting does with signs."""
_SHORT = ("letter", "a@b.org")
"""Have no word that could be held out."""
_SPACED = frozenset(("title", "note", "two words"))
_WEIGHTS = {"note": 3.0, "title": 3.0, "email": 2.0, "a1b2": 2.0, "word_01": 2.0, "a1": 2.0}
_CODES = ("word_01", "word-1", "word1", "a1", "AB1", "A-123", "AB-1234-C", "a1b2", "my_name", "file", "email")


def draw_things(slots: Slots, count: int, *, spaced: bool = True, without: tuple[str, ...] = ()) -> list[str]:
    """Draws distinct things of one kind.

    Args:
        spaced: whether a thing may be of several words.
        without: kinds that are not to be drawn.
    """
    without += _SHORT if slots.unseen else ()
    kinds = [kind for kind in _THINGS if kind not in without and (spaced or kind not in _SPACED)]
    kind = slots.rng.choices(kinds, [_WEIGHTS.get(kind, 1.0) for kind in kinds])[0]
    found: dict[str, str] = {}
    while len(found) < count:
        thing = _THINGS[kind](slots)
        if not is_mixed(thing, slots):
            found.setdefault(thing.lower(), thing)
    return list(found.values())


def draw_code(slots: Slots) -> str:
    """Draws one word with digits and signs, as codes, identifiers and addresses are."""
    rng = slots.rng
    form = rng.random()
    while True:
        if form < 0.6:
            code = _THINGS[rng.choice(_CODES)](slots)
        elif form < 0.7:
            code = f"{slots.identifier()}_{rng.randint(1, 99)}"
        elif form < 0.8:
            signs = rng.choices("-./:", k=2)
            code = f"{_letters(slots, rng.randint(1, 3))}{signs[0]}{slots.number(3)}{signs[1]}{rng.randint(1, 9)}"
        elif form < 0.9:
            code = "".join(rng.choices(f"{_CAPITALS}{_CAPITALS.lower()}0123456789-_#", k=rng.randint(4, 8)))
        else:
            code = f"{rng.randint(1, 999)}{rng.choice('-./:')}{rng.randint(10, 9999)}"
        if not is_mixed(code, slots) and code != code[::-1]:
            return code


def draw_mixed_numbers(slots: Slots, count: int) -> list[tuple[Decimal, str]]:
    """Draws distinct numbers with their texts, whole ones and ones with a point, some below zero, some alike in their
    first digits."""
    rng = slots.rng
    below, pointed = rng.choice(((0.35, 0.3), (0.35, 0.0), (0.0, 0.5), (0.15, 0.7)))
    found: dict[Decimal, str] = {}
    while len(found) < count:
        if found and rng.random() < 0.35:
            number = _near(slots, rng.choice(list(found)), pointed=pointed > 0)
        else:
            number = Decimal(slots.number(rng.choice((1, 2, 2, 3, 4))))
            if rng.random() < pointed:
                places = rng.randint(1, 2)
                number += Decimal(rng.randint(1, 10**places - 1)).scaleb(-places)
        if number and rng.random() < below:
            number = -number
        found.setdefault(number, f"{number:f}")
    return list(found.items())


def _near(slots: Slots, number: Decimal, *, pointed: bool) -> Decimal:
    """A number that begins or ends as another does, or is as far from zero."""
    digits = f"{abs(number):f}"
    if pointed and "." in digits:
        whole, places = digits.split(".")
        return Decimal(slots.rng.choice((whole, f"{whole}.0{places[0]}", f"{whole}.{slots.rng.randint(1, 99)}")))
    return Decimal(slots.rng.choice((f"{digits}0" if "." not in digits else digits, digits[1:].lstrip(".") or "0")))


def is_mixed(text: str, slots: Slots) -> bool:
    """Says whether a training text has a held-out word in it."""
    return not slots.unseen and any(is_unseen(word) for word in re.findall(r"[^\W\d_]{3,}", text))
