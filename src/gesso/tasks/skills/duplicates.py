"""Asks to remove repeated words or numbers from a list, keeping the first of each."""

from typing import ClassVar

from gesso.tasks.base import Example
from gesso.tasks.skills.skill import Skill
from gesso.tasks.skills.slots import Phrasings, Slots

_ASK = Phrasings(
    (
        "Remove duplicates", "Remove [all|the|any] duplicates[| from this list| from the list]",
        "[Delete|Drop|Take out] [the|all] [duplicates|repeated words|repetitions]",
        "Deduplicate[| this list| the list]",
        "Remove [repeated|duplicate] [words|items|entries]", "List each [word|item] [once|only once]",
        "Keep only the first of each [word|item]", "Leave out [repetitions|duplicates]",
        "Write every [word|item] [just|only] once", "Keep each [word|item|entry] once",
    ),
    (
        "Make the items unique", "Strip the repeats from this list", "Get rid of duplicates",
        "Return the distinct items in order",
    ),
)  # fmt: skip
_SEPARATORS = (", ", ", ", " ", " ", "\n")


class Duplicates(Skill):
    """Asks such as `Remove duplicates: grelt, fig, grelt` -> `grelt, fig`."""

    name = "duplicates"
    phrasings: ClassVar = {"": _ASK}

    def draw(self, slots: Slots) -> Example:
        """Draws two to five distinct items and one to four repetitions in between."""
        rng = slots.rng
        count = rng.randint(2, 5)
        words = rng.random() < 0.75
        distinct = slots.words(count) if words else [str(number) for number in slots.numbers(count, 4)]
        given = distinct + rng.choices(distinct, k=rng.randint(1, 4))
        rng.shuffle(given)
        separator = rng.choice(_SEPARATORS)
        answer = separator.join(dict.fromkeys(given))
        prompt = slots.request(_ASK, separator.join(given))
        return Example(self.name, prompt, answer, kind=slots.kind("words" if words else "numbers"))
