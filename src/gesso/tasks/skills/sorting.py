"""Asks to sort any words or numbers, up or down."""

from typing import ClassVar

from gesso.tasks.base import Example
from gesso.tasks.skills.lexicon import is_unseen
from gesso.tasks.skills.skill import Skill
from gesso.tasks.skills.slots import Slots, read_phrasings

_WORDS_UP = read_phrasings("sorting", "words_up")
_WORDS_DOWN = read_phrasings("sorting", "words_down")
_NUMBERS_UP = read_phrasings("sorting", "numbers_up")
_NUMBERS_DOWN = read_phrasings("sorting", "numbers_down")
_SEPARATORS = (", ", ", ", ", ", " ", "\n", "; ")
_COUNTS = (2, 3, 4, 5, 6, 7)
_COUNT_WEIGHTS = (0.1, 0.25, 0.25, 0.2, 0.12, 0.08)
_WORDS_SHARE, _TRAINED_WORDS_SHARE = 0.65, 0.5
"""Numbers are learned later than words."""


class Sorting(Skill):
    """Asks such as `Put these words in order: offset, grelt, banana` -> `banana, grelt, offset`."""

    name = "sorting"
    phrasings: ClassVar = {
        "words": _WORDS_UP,
        "down": _WORDS_DOWN,
        "numbers": _NUMBERS_UP,
        "numbers down": _NUMBERS_DOWN,
    }

    def draw(self, slots: Slots) -> Example:
        """Draws two to seven words, or numbers of up to six digits (more often in training); one in four is sorted
        downwards. Of words, case does not count."""
        rng = slots.rng
        count = rng.choices(_COUNTS, _COUNT_WEIGHTS)[0]
        down = rng.random() < 0.25
        separator = rng.choice(_SEPARATORS)
        if rng.random() < (_WORDS_SHARE if slots.unseen else _TRAINED_WORDS_SHARE):
            given = slots.words(count)
            if rng.random() < 0.15:  # a common beginning, so that later letters decide
                given = _alike(given, unseen=slots.unseen) or given
            if rng.random() < 0.15:
                share = rng.choice((1.0, 0.4))
                given = [word.capitalize() if rng.random() < share else word for word in given]
            result = sorted(given, key=str.lower, reverse=down)
            phrasings, kind = (_WORDS_DOWN if down else _WORDS_UP), "words"
        else:
            digits = rng.choice((2, 3, 4, 6))
            numbers = slots.numbers(count, digits)
            given, result = ([str(n) for n in row] for row in (numbers, sorted(numbers, reverse=down)))
            phrasings, kind = (_NUMBERS_DOWN if down else _NUMBERS_UP), "numbers"
        prompt = slots.request(phrasings, separator.join(given))
        return Example(self.name, prompt, separator.join(result), kind=slots.kind(kind))


def _alike(words: list[str], *, unseen: bool) -> list[str]:
    """The words behind the first letters of one of them, as far as they are on the right side of the split."""
    made = dict.fromkeys(words[0][:2] + word for word in words)
    return [word for word in made if is_unseen(word) == unseen]
