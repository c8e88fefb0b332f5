"""Asks to sort any words or numbers, up or down, or words by their length."""

from typing import ClassVar

from gesso.tasks.base import Example
from gesso.tasks.skills.entries import draw_entries, draw_numbers
from gesso.tasks.skills.layouts import COMMAS, SPACES, TIGHT, draw_layout
from gesso.tasks.skills.lexicon import is_unseen
from gesso.tasks.skills.patterns import read_phrasings
from gesso.tasks.skills.skill import Skill
from gesso.tasks.skills.slots import Slots

_WORDS_UP = read_phrasings("sorting", "words_up")
_WORDS_DOWN = read_phrasings("sorting", "words_down")
_NUMBERS_UP = read_phrasings("sorting", "numbers_up")
_NUMBERS_DOWN = read_phrasings("sorting", "numbers_down")
_LENGTH_UP = read_phrasings("sorting", "length_up")
_LENGTH_DOWN = read_phrasings("sorting", "length_down")
_COUNTS = (2, 3, 4, 5, 6, 7)
_COUNT_WEIGHTS = (0.1, 0.25, 0.25, 0.2, 0.12, 0.08)
_WORDS_SHARE, _TRAINED_WORDS_SHARE = 0.65, 0.5
"""Numbers are learned later than words."""
_LENGTH_SHARE = 0.05


class Sorting(Skill):
    """Asks such as `Put these words in order: offset, grelt, banana` -> `banana, grelt, offset`."""

    name = "sorting"
    shouted = True
    phrasings: ClassVar = {
        "words": _WORDS_UP,
        "down": _WORDS_DOWN,
        "numbers": _NUMBERS_UP,
        "numbers down": _NUMBERS_DOWN,
        "length": _LENGTH_UP,
        "length down": _LENGTH_DOWN,
    }

    def draw(self, slots: Slots) -> Example:
        """Draws two to seven words, names, codes or numbers (numbers more often in training), in one of many layouts;
        one in four is sorted downwards. Of words, case does not count."""
        rng = slots.rng
        count = rng.choices(_COUNTS, _COUNT_WEIGHTS)[0]
        down = rng.random() < 0.25
        layout = draw_layout(rng)
        if rng.random() < _LENGTH_SHARE:
            by_length = {len(word): word for word in slots.words(count)}
            given = list(by_length.values())
            result = sorted(given, key=len, reverse=down)
            phrasings, kind = (_LENGTH_DOWN if down else _LENGTH_UP), "length"
        elif rng.random() < (_WORDS_SHARE if slots.unseen else _TRAINED_WORDS_SHARE):
            given = draw_entries(slots, count, spaced=layout != SPACES)
            if rng.random() < 0.15:  # a common beginning, so that later letters decide
                given = _alike(given, unseen=slots.unseen) or given
            if rng.random() < 0.1:
                given = [word.capitalize() if word.islower() else word for word in given]
            result = sorted(given, key=str.lower, reverse=down)
            phrasings, kind = (_WORDS_DOWN if down else _WORDS_UP), "words"
        else:
            layout = COMMAS if layout == TIGHT else layout
            numbers = draw_numbers(slots, count, spaced=layout != SPACES)
            given = [text for _, text in numbers]
            result = [text for _, text in sorted(numbers, reverse=down)]
            phrasings, kind = (_NUMBERS_DOWN if down else _NUMBERS_UP), "numbers"
        prompt = slots.request(phrasings, layout.write(given), loose=layout == SPACES)
        return Example(self.name, prompt, layout.answer(result), kind=slots.kind(kind))


def _alike(words: list[str], *, unseen: bool) -> list[str]:
    """The words behind the first letters of one of them, as far as they are on the right side of the split."""
    if not all(word.isalpha() and word.islower() for word in words):
        return []
    made = dict.fromkeys(words[0][:2] + word for word in words)
    return [word for word in made if is_unseen(word) == unseen]
