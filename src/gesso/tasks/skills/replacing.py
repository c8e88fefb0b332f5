"""Asks to replace a word of a text with another, or to remove it."""

import re
from typing import ClassVar

from gesso.tasks.base import Example
from gesso.tasks.skills.skill import Skill
from gesso.tasks.skills.slots import Phrasings, Slots

_REPLACE = Phrasings(
    (
        "Replace every {old} with {new}", "Replace {old} [with|by] {new}", "Replace [all|each] {old} [with|by] {new}",
        "Change [every|each|] {old} [to|into] {new}", "Turn every {old} into {new}", "Write {new} instead of {old}",
        "Substitute {new} for {old}", "Swap {old} for {new}", "Use {new} instead of {old}",
        "Replace the word {old} with {new}", "Exchange {old} for {new}",
    ),
    ("Put {new} wherever it says {old}", "Make each {old} a {new}", "Where you see {old}, write {new}"),
)  # fmt: skip
_REMOVE = Phrasings(
    (
        "Remove [every|the word|] {old}",
        "Delete [every|the word|] {old}",
        "Leave out {old}",
        "Drop every {old}",
        "Take out [every|the word] {old}",
        "Strike [every|the word] {old}",
    ),
    ("Get rid of {old}", "Write it without {old}"),
)
_QUOTES = ('"{}"', '"{}"', "{}", "'{}'")


class Replacing(Skill):
    """Asks such as `Replace every "fig" with "grelt": fig pear fig` -> `grelt pear grelt`."""

    name = "replacing"
    phrasings: ClassVar = {"replace": _REPLACE, "remove": _REMOVE}

    def draw(self, slots: Slots) -> Example:
        """Draws three to eight words of which one stands there once to three times."""
        rng = slots.rng
        length = rng.randint(3, 8)
        old, new, *others = slots.words(length + 2)
        repeats = rng.randint(1, min(3, length - 1))
        given = [old] * repeats + others[: length - repeats]
        rng.shuffle(given)
        separator = rng.choice((" ", " ", ", "))
        quote = rng.choice(_QUOTES)
        text = separator.join(given)
        if rng.random() < 0.2:
            prompt = slots.request(_REMOVE, text, old=quote.format(old))
            answer = separator.join(word for word in given if word != old)
            return Example(self.name, prompt, answer, kind=slots.kind("remove"))
        prompt = slots.request(_REPLACE, text, old=quote.format(old), new=quote.format(new))
        return Example(self.name, prompt, re.sub(rf"\b{old}\b", new, text), kind=slots.kind("replace"))
