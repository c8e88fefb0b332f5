"""Asks to remove repeated words or numbers from a list, keeping the first of each."""

from typing import ClassVar

from gesso.tasks.base import Example
from gesso.tasks.skills.skill import Skill
from gesso.tasks.skills.slots import Slots, read_phrasings

_ASK = read_phrasings("duplicates", "ask")
_SEPARATORS = (", ", ", ", " ", " ", "\n")
_WORDS_SHARE, _TRAINED_WORDS_SHARE = 0.75, 0.6
"""Numbers are learned later than words."""


class Duplicates(Skill):
    """Asks such as `Remove duplicates: grelt, fig, grelt` -> `grelt, fig`."""

    name = "duplicates"
    phrasings: ClassVar = {"": _ASK}

    def draw(self, slots: Slots) -> Example:
        """Draws two to five distinct items and one to four repetitions in between."""
        rng = slots.rng
        count = rng.randint(2, 5)
        words = rng.random() < (_WORDS_SHARE if slots.unseen else _TRAINED_WORDS_SHARE)
        distinct = slots.items(count) if words else [str(number) for number in slots.numbers(count, 4)]
        given = distinct + rng.choices(distinct, k=rng.randint(1, 4))
        rng.shuffle(given)
        separator = rng.choice(_SEPARATORS)
        answer = separator.join(dict.fromkeys(given))
        prompt = slots.request(_ASK, separator.join(given))
        return Example(self.name, prompt, answer, kind=slots.kind("words" if words else "numbers"))
