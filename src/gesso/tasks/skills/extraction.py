"""Asks for named facts of a sentence as JSON, whatever the names and the values."""

import json
from collections.abc import Mapping
from typing import ClassVar

from gesso.tasks.base import Example
from gesso.tasks.skills.lexicon import words_of
from gesso.tasks.skills.skill import Skill
from gesso.tasks.skills.slots import Phrasings, Slots, expand, read_phrasings
from gesso.tasks.to_json import same_json
from gesso.tasks.words import COLOURS

_ASK = read_phrasings("extraction", "ask")

_PERSON = read_phrasings("extraction", "person")
_GOODS = read_phrasings("extraction", "goods")
_ORDER = read_phrasings("extraction", "order")
_TRIP = read_phrasings("extraction", "trip")
_LISTED = read_phrasings("extraction", "listed")
_THINGS = read_phrasings("extraction", "things")
_DOMAINS = {"person": _PERSON, "goods": _GOODS, "order": _ORDER, "trip": _TRIP, "things": _THINGS, "listed": _LISTED}
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_JOBS = ("doctor", "teacher", "nurse", "baker", "pilot", "farmer", "lawyer", "singer", "painter", "cook")
_PEOPLE = words_of("""
    artist author buyer director doctor guest host loser owner passenger patient player receiver seller sender student
    teacher winner
""")
_WORDS = words_of("animal language pet product shelf street subject unit weather")
_NAMES = words_of("brand company country team")
_NUMBERS = {
    "amount": 4, "distance": 6, "floor": 2, "minutes": 3, "number": 3, "pages": 3, "points": 3, "priority": 1,
    "room": 3, "salary": 5, "table": 2, "temperature": 2, "ticket": 5, "weight": 3,
}  # fmt: skip
_SIZES = ("small", "medium", "large", "S", "M", "L", "XL")
Value = str | int


class Extraction(Skill):
    """Asks such as `Kelmo is 41 and lives in Drasto. Give city and age as JSON.` -> `{"city": "Drasto", "age": 41}`."""

    name = "extraction"
    phrasings: ClassVar = {"ask": _ASK, **_DOMAINS}

    def draw(self, slots: Slots) -> Example:
        """Draws a sentence and one to all of its facts, in any order."""
        rng = slots.rng
        kind = rng.choice(tuple(_DOMAINS))
        facts = {"listed": _listed, "things": _things}.get(kind, _facts)(slots)
        sentence, keys = _sentence(slots, _DOMAINS[kind], facts)
        asked = rng.sample(keys, rng.randint(min(2, len(keys)), len(keys)) if rng.random() < 0.8 else 1)
        if kind == "listed":
            answer = {str(facts[f"k{key[1:]}"]): facts[key] for key in asked}
        else:
            answer = {key: facts[key] for key in asked}
        ask = slots.choice(_ASK, keys=_join(slots, list(answer)))
        prompt = _place(slots, ask, sentence)
        return Example(self.name, prompt, json.dumps(answer), kind=slots.kind(kind))

    def grade(self, example: Example, text: str) -> bool:
        """Accepts the same object in any order and spacing."""
        return same_json(example.answer, text)


def _facts(slots: Slots) -> dict[str, Value]:
    rng = slots.rng
    origin, destination = slots.city(), slots.city()
    return {
        "name": slots.name(),
        "age": rng.randint(1, 99),
        "city": slots.city(),
        "job": rng.choice(_JOBS) if rng.random() < 0.4 else slots.word(),
        "colour": rng.choice(COLOURS),
        "item": slots.word(),
        "price": slots.number(5),
        "order": slots.number(6),
        "quantity": slots.number(3),
        "origin": origin,
        "destination": destination,
        "time": f"{rng.randint(0, 23):02d}:{rng.randint(0, 59):02d}",
        "day": rng.choice(_DAYS),
    }


def _things(slots: Slots) -> dict[str, Value]:
    """Facts of work and leisure under the names that they have there: who, what, how much and where."""
    rng = slots.rng
    facts = _facts(slots)
    facts["color"] = facts["colour"]
    facts |= {key: slots.first_name() if rng.random() < 0.5 else slots.name() for key in _PEOPLE}
    facts |= {key: slots.word() for key in _WORDS}
    facts |= {key: slots.city() for key in _NAMES}
    facts |= {key: slots.number(digits) for key, digits in _NUMBERS.items()}
    first, second = slots.words(2)
    return facts | {
        "email": f"{first}@{second}.{rng.choice(('com', 'org', 'net'))}",
        "end": f"{rng.randint(13, 23)}:{rng.randint(0, 59):02d}",
        "flight": f"{rng.choice('ABDEKLSTU')}{rng.choice('AFHKLRSY')}{slots.number(4)}",
        "gate": f"{rng.choice('ABCDE')}{rng.randint(1, 60)}",
        "phone": f"{rng.randint(100, 999)}-{rng.randint(0, 9999):04d}",
        "score": f"{rng.randint(0, 9)}:{rng.randint(0, 9)}",
        "seat": f"{rng.randint(1, 60)}{rng.choice('ABCDEF')}",
        "size": rng.choice(_SIZES) if rng.random() < 0.7 else rng.randint(30, 50),
        "start": f"{rng.randint(6, 12)}:{rng.randint(0, 59):02d}",
        "title": " ".join(word.capitalize() for word in slots.words(rng.randint(1, 3))),
        "version": f"{rng.randint(0, 19)}.{rng.randint(0, 19)}",
        "year": rng.randint(1900, 2059),
    }


def _listed(slots: Slots) -> dict[str, Value]:
    facts: dict[str, Value] = {"name": slots.first_name()}
    for number, key in enumerate(slots.words(3), start=1):
        facts[f"k{number}"] = key
        facts[f"v{number}"] = slots.number(5) if slots.rng.random() < 0.5 else slots.word()
    return facts


def _sentence(slots: Slots, phrasings: Phrasings, facts: Mapping[str, Value]) -> tuple[str, list[str]]:
    """A sentence, and the names of the facts that it tells."""
    used: list[str] = []

    class Told(dict[str, Value]):
        def __getitem__(self, key: str) -> Value:
            if not key.startswith("k"):
                used.append(key)
            return facts[key]

    pattern = slots.rng.choice(phrasings.unseen if slots.reworded else phrasings.seen)
    text = "\n".join(expand(line, slots.rng) for line in pattern.split("\n")).format_map(Told())
    if phrasings is _LISTED:
        used = [key for key in used if key.startswith("v")]
    return text, list(dict.fromkeys(used))


def _join(slots: Slots, keys: list[str]) -> str:
    if slots.rng.random() < 0.15:
        keys = [f'"{key}"' for key in keys]
    if len(keys) == 1 or slots.rng.random() < 0.2:
        return ", ".join(keys)
    return f"{', '.join(keys[:-1])} and {keys[-1]}"


def _place(slots: Slots, ask: str, sentence: str) -> str:
    """The request after the sentence, as most put it, or before it."""
    rng = slots.rng
    if rng.random() < 0.35:
        return slots.frame(ask, sentence)
    ask = slots.frame(ask).replace("??", "?")
    return f"{sentence}{rng.choice((' ', ' ', chr(10), chr(10) * 2))}{ask}"
