"""Asks for named facts of a sentence as JSON, whatever the names and the values."""

import json
from collections.abc import Mapping
from typing import ClassVar

from gesso.tasks.base import Example
from gesso.tasks.skills.skill import Skill
from gesso.tasks.skills.slots import Phrasings, Slots
from gesso.tasks.to_json import same_json
from gesso.tasks.words import COLOURS

_ASK = Phrasings(
    (
        "Give {keys} as JSON", "Give {keys} as JSON", "Give me {keys} as [JSON|a JSON object]",
        "Extract {keys} as JSON", "Extract {keys}[| from this text] and [write|give|return] [JSON|a JSON object]",
        "Return {keys} as [JSON|a JSON object]", "Write {keys} as JSON", "Put {keys} into [JSON|a JSON object]",
        "Make a JSON object with {keys}", "Make JSON with the keys {keys}", "Answer with JSON: {keys}",
        "Turn this into JSON with {keys}", "Find {keys} and answer in JSON", "List {keys} as JSON",
    ),
    (
        "Produce a JSON object that has {keys}", "~I need {keys} in JSON", "Read off {keys} and format them as JSON",
        "~What are {keys}? Reply in JSON",
    ),
)  # fmt: skip

_PERSON = Phrasings(
    (
        "{name} is {age} years old and lives in {city}.", "{name}, aged {age}, lives in {city}.",
        "{name} ({age}) works in {city} as a {job}.", "{name} from {city} is {age} years old.",
        "{name} is a {job} in {city}.", "Our new {job} is {name}, {age}, from {city}.",
        "In {city} lives {name}, a {job} of {age} years.", "My neighbour {name} is {age} and was born in {city}.",
    ),
    (
        "At {age}, {name} moved to {city} to become a {job}.",
        "The {job} {name} has been living in {city} for years.",
        "Meet {name}: {age}, {job}, at home in {city}.",
    ),
)  # fmt: skip
_GOODS = Phrasings(
    (
        "The {colour} {item} costs {price} euros and is made in {city}.",
        "In {city} you can buy a {colour} {item} for {price} euros.",
        "For sale: {colour} {item} from {city}, price {price} euros.", "A {colour} {item} for {price} dollars.",
        "The shop in {city} sells a {colour} {item} at {price} euros.", "{name} bought a {item} for {price} euros.",
        "You get the {item} in {colour} for {price} euros.", "{name} sells a {colour} {item} in {city}.",
    ),
    (
        "For {price} euros {name} offers a {colour} {item}.",
        "{city} is where the {colour} {item} comes from; it costs {price}.",
        "A {item} that is {colour} went to {name} for {price} euros.",
    ),
)  # fmt: skip
_ORDER = Phrasings(
    (
        "Order {order}: {quantity} {item} for {name}.", "{name} ordered {quantity} {item}, order number {order}.",
        "{quantity} boxes of {item} were sent to {name} in {city}.",
        "Invoice {order} for {name} is about {quantity} {item}.",
        "{name} from {city} wants {quantity} {item}.", "Please send {quantity} {item} to {name}, {city}.",
    ),
    (
        "Number {order} goes to {name}: {quantity} pieces of {item}.",
        "There are {quantity} {item} waiting in {city} for {name}.",
    ),
)  # fmt: skip
_TRIP = Phrasings(
    (
        "The train from {origin} to {destination} leaves at {time} on {day}.",
        "On {day} {name} flies from {origin} to {destination}.",
        "{name} travels to {destination} on {day} at {time}.",
        "The bus to {destination} starts in {origin} at {time}.",
        "From {origin} to {destination} it costs {price} euros.",
        "{name} left {origin} on {day} for {destination}.",
    ),
    (
        "At {time} the ferry from {origin} arrives in {destination}.",
        "{destination} is reached from {origin} on {day} by {name}.",
    ),
)  # fmt: skip
_LISTED = Phrasings(
    (
        "The {k1} is {v1} and the {k2} is {v2}.", "{k1}: {v1}, {k2}: {v2}", "{k1} = {v1}; {k2} = {v2}; {k3} = {v3}",
        "The {k1} of {name} is {v1}, the {k2} {v2}.", "{k1}: {v1}\n{k2}: {v2}\n{k3}: {v3}",
        "It has {k1} {v1}, {k2} {v2} and {k3} {v3}.", "With {k1} {v1} the {k2} was {v2}.",
        "{v1} is the {k1}, {v2} the {k2}.",
    ),
    (
        "As {k1} we have {v1}, as {k2} {v2}.", "{k1} -> {v1}, {k2} -> {v2}, {k3} -> {v3}",
        "Its {k1} was {v1} while its {k2} was {v2}.",
    ),
)  # fmt: skip
_DOMAINS = {"person": _PERSON, "goods": _GOODS, "order": _ORDER, "trip": _TRIP, "listed": _LISTED}
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_JOBS = ("doctor", "teacher", "nurse", "baker", "pilot", "farmer", "lawyer", "singer", "painter", "cook")
Value = str | int


class Extraction(Skill):
    """Asks such as `Kelmo is 41 and lives in Drasto. Give city and age as JSON.` -> `{"city": "Drasto", "age": 41}`."""

    name = "extraction"
    phrasings: ClassVar = {"ask": _ASK, **_DOMAINS}

    def draw(self, slots: Slots) -> Example:
        """Draws a sentence and one to all of its facts, in any order."""
        rng = slots.rng
        kind = rng.choice(tuple(_DOMAINS))
        facts = _listed(slots) if kind == "listed" else _facts(slots)
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
    text = pattern.format_map(Told())
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
    ask = slots.frame(ask)
    return f"{sentence}{rng.choice((' ', ' ', chr(10), chr(10) * 2))}{ask}"
