"""Asks to reverse the order of words, or the letters of a word."""

from typing import ClassVar

from gesso.tasks.base import Example
from gesso.tasks.skills.entries import OF_WORDS, draw_entries, draw_numbers
from gesso.tasks.skills.layouts import COMMAS, SPACES, TIGHT, draw_layout
from gesso.tasks.skills.patterns import read_phrasings
from gesso.tasks.skills.skill import Skill
from gesso.tasks.skills.slots import Slots

_WORDS = read_phrasings("reversing", "words")
_LETTERS = read_phrasings("reversing", "letters")
_LETTERS_SHARE, _TRAINED_LETTERS_SHARE = 0.25, 0.4
"""Letters are learned later than words."""
_WORDS_SHARE, _TRAINED_WORDS_SHARE = 0.85, 0.75
"""So are numbers."""
_OF_NUMBERS = r"\bnumbers\b|\bvalues\b|\bfigures\b"


class Reversing(Skill):
    """Asks such as `Write these words backwards: offset grelt` -> `grelt offset`; `Reverse the letters: fig` ->
    `gif`."""

    name = "reversing"
    shouted = True
    phrasings: ClassVar = {"words": _WORDS, "letters": _LETTERS}

    def draw(self, slots: Slots) -> Example:
        """Draws two to seven words, names or numbers in any layout, a sentence or, one time in four, a single word,
        code or number whose letters turn (more often in training, as numbers are)."""
        rng = slots.rng
        if rng.random() < (_LETTERS_SHARE if slots.unseen else _TRAINED_LETTERS_SHARE):
            word = _single(slots)
            return Example(self.name, slots.request(_LETTERS, word), word[::-1], kind=slots.kind("letters"))
        layout = draw_layout(rng)
        without = _OF_NUMBERS
        if rng.random() < (_WORDS_SHARE if slots.unseen else _TRAINED_WORDS_SHARE):
            given = draw_entries(slots, rng.randint(2, 7), spaced=layout != SPACES, copied=True)
            if layout == SPACES:
                given = slots.plain_sentence() if rng.random() < 0.35 else slots.sentence(given)
            elif any(" " in item for item in given):
                without = f"{OF_WORDS}|word|{_OF_NUMBERS}"
        else:
            layout, without = (COMMAS if layout == TIGHT else layout), OF_WORDS
            given = [text for _, text in draw_numbers(slots, rng.randint(3, 5), spaced=layout != SPACES)]
        prompt = slots.request(_WORDS, layout.answer(given), loose=layout == SPACES, without=without)
        return Example(self.name, prompt, layout.answer(given[::-1]), kind=slots.kind("words"))


def _single(slots: Slots) -> str:
    """A word; now and then a name, a number or a code."""
    rng = slots.rng
    kind = rng.choices(("word", "name", "number", "code"), (0.74, 0.11, 0.1, 0.05))[0]
    if kind == "number":
        return str(slots.number(6) + 10)
    if kind == "code":
        return f"{rng.choice('ABCDEFGHKLMNPRSTXZ')}{rng.choice('ABCDEFGHKLMNPRSTXZ')}{slots.number(3)}"
    return slots.first_name() if kind == "name" else slots.word()
