"""Asks to reverse the order of words, or the letters of a word."""

from typing import ClassVar

from gesso.tasks.base import Example
from gesso.tasks.skills.skill import Skill
from gesso.tasks.skills.slots import Slots, read_phrasings

_WORDS = read_phrasings("reversing", "words")
_LETTERS = read_phrasings("reversing", "letters")
_SEPARATORS = (" ", " ", ", ", "\n")
_LETTERS_SHARE, _TRAINED_LETTERS_SHARE = 0.25, 0.4
"""Letters are learned later than words."""
_WORDS_SHARE, _TRAINED_WORDS_SHARE = 0.85, 0.75
"""So are numbers."""


class Reversing(Skill):
    """Asks such as `Write these words backwards: offset grelt` -> `grelt offset`; `Reverse the letters: fig` ->
    `gif`."""

    name = "reversing"
    phrasings: ClassVar = {"words": _WORDS, "letters": _LETTERS}

    def draw(self, slots: Slots) -> Example:
        """Draws two to seven words, a sentence or, one time in four, a single word or number whose letters turn
        (more often in training, as numbers are)."""
        rng = slots.rng
        if rng.random() < (_LETTERS_SHARE if slots.unseen else _TRAINED_LETTERS_SHARE):
            word = slots.word()
            return Example(self.name, slots.request(_LETTERS, word), word[::-1], kind=slots.kind("letters"))
        separator = rng.choice(_SEPARATORS)
        if rng.random() < (_WORDS_SHARE if slots.unseen else _TRAINED_WORDS_SHARE):
            given = slots.items(rng.randint(2, 7))
            if separator == " ":
                given = slots.plain_sentence() if rng.random() < 0.35 else slots.sentence(given)
        else:
            given = list(map(str, slots.numbers(4, 3)))
        prompt = slots.request(_WORDS, separator.join(given))
        return Example(self.name, prompt, separator.join(given[::-1]), kind=slots.kind("words"))
