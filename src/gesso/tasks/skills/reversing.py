"""Asks to reverse the order of words, or the letters of a word."""

from typing import ClassVar

from gesso.tasks.base import Example
from gesso.tasks.skills.skill import Skill
from gesso.tasks.skills.slots import Phrasings, Slots

_WORDS = Phrasings(
    (
        "Reverse the words", "Reverse [these|the] words", "Reverse the order of [these|the] [words|items]",
        "Reverse [this|the] list", "Write [these|the] words [backwards|in reverse order|in reverse]",
        "Put [these|the] words in reverse order", "Turn the order of the [words|items] around",
        "[Write|List|Give] the words from last to first", "Repeat the words in reverse order",
    ),
    ("Flip the order of these words", "Read the list from its end", "List the items back to front"),
)  # fmt: skip
_LETTERS = Phrasings(
    (
        "Reverse the letters[| of this word]",
        "Reverse [the|this] word",
        "Write [the|this] word backwards",
        "Spell [the|this] word backwards",
        "Write the letters in reverse order",
        "Reverse the string",
        "Reverse the letters of [the|each] word",
        "Spell backwards",
    ),
    ("Flip the letters of this word", "Turn this word around letter by letter", "Mirror the word"),
)
_SEPARATORS = (" ", " ", ", ", "\n")


class Reversing(Skill):
    """Asks such as `Write these words backwards: offset grelt` -> `grelt offset`; `Reverse the letters: fig` ->
    `gif`."""

    name = "reversing"
    phrasings: ClassVar = {"words": _WORDS, "letters": _LETTERS}

    def draw(self, slots: Slots) -> Example:
        """Draws two to seven words or, one time in four, a single word or number whose letters turn."""
        rng = slots.rng
        if rng.random() < 0.25:
            word = slots.word()
            return Example(self.name, slots.request(_LETTERS, word), word[::-1], kind=slots.kind("letters"))
        separator = rng.choice(_SEPARATORS)
        given = slots.words(rng.randint(2, 7)) if rng.random() < 0.85 else list(map(str, slots.numbers(4, 3)))
        prompt = slots.request(_WORDS, separator.join(given))
        return Example(self.name, prompt, separator.join(given[::-1]), kind=slots.kind("words"))
