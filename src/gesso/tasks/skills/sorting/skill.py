"""Asks to sort any words, numbers or things, up or down, or words by their length."""

from typing import ClassVar

from gesso.tasks.base import Example
from gesso.tasks.skills.entries import draw_entries, draw_numbers
from gesso.tasks.skills.layouts import COMMAS, SPACES, TIGHT, draw_layout
from gesso.tasks.skills.lexicon import is_unseen
from gesso.tasks.skills.patterns import read_phrasings
from gesso.tasks.skills.skill import Skill
from gesso.tasks.skills.slots import Slots
from gesso.tasks.skills.sorting.kinds import (
    MORE_SECTIONS,
    Sorted,
    code,
    dates,
    letters,
    mixed_numbers,
    pairs,
    surnames,
    things,
)
from gesso.tasks.skills.wide_layouts import draw_number_layout, draw_wide_layout

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
_KINDS = ("plain", "length", "mixed numbers", "things", "dates", "pairs", "last names", "letters", "code")
_KIND_WEIGHTS = (0.61, 0.09, 0.07, 0.08, 0.05, 0.04, 0.015, 0.02, 0.025)
_LISTS = {"mixed numbers": mixed_numbers, "things": things, "dates": dates, "pairs": pairs, "last names": surnames}


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
        **MORE_SECTIONS,
    }

    def draw(self, slots: Slots) -> Example:
        """Draws two to seven words, names, codes or numbers (numbers more often in training), in one of many layouts;
        one in four is sorted downwards. Of words, case does not count. Three in ten are things, dates, pairs, letters
        or code."""
        rng = slots.rng
        count = rng.choices(_COUNTS, _COUNT_WEIGHTS)[0]
        down = rng.random() < 0.25
        kind = rng.choices(_KINDS, _KIND_WEIGHTS)[0]
        if kind in _LISTS:
            prompt, answer = _LISTS[kind](slots, count, down).ask(slots)
        elif kind == "letters":
            prompt, answer = letters(slots, down)
        elif kind == "code":
            prompt, answer = code(slots, count, down)
        elif kind == "length":
            prompt, answer = _by_length(slots, count, down).ask(slots)
        elif rng.random() < (_WORDS_SHARE if slots.unseen else _TRAINED_WORDS_SHARE):
            kind = "words"
            prompt, answer = _words(slots, count, down).ask(slots)
        else:
            kind = "numbers"
            prompt, answer = _numbers(slots, count, down).ask(slots)
        return Example(self.name, prompt, answer, kind=slots.kind(kind))


def _words(slots: Slots, count: int, down: bool) -> Sorted:
    """Words, names, phrases or codes."""
    rng = slots.rng
    layout = draw_wide_layout(slots.rng, numbered=True)
    given = draw_entries(slots, count, spaced=layout.separator != SPACES.separator)
    if rng.random() < 0.15:  # a common beginning, so that later letters decide
        given = _alike(given, unseen=slots.unseen) or given
    if rng.random() < 0.1:
        given = [word.capitalize() if word.islower() else word for word in given]
    if any(layout.separator in item for item in given):
        layout = COMMAS
    result = sorted(given, key=str.lower, reverse=down)
    return Sorted(_WORDS_DOWN if down else _WORDS_UP, given, result, layout)


def _numbers(slots: Slots, count: int, down: bool) -> Sorted:
    """Numbers of one form."""
    layout = draw_number_layout(slots.rng, numbered=True)
    if layout == TIGHT and count == 2:
        layout = COMMAS
    numbers = draw_numbers(slots, count, spaced=layout.separator != SPACES.separator)
    result = [text for _, text in sorted(numbers, reverse=down)]
    return Sorted(_NUMBERS_DOWN if down else _NUMBERS_UP, [text for _, text in numbers], result, layout)


def _by_length(slots: Slots, count: int, down: bool) -> Sorted:
    """Words of unlike lengths."""
    layout = draw_layout(slots.rng)
    given = list({len(word): word for word in slots.words(count + 1)}.values())
    result = sorted(given, key=len, reverse=down)
    return Sorted(_LENGTH_DOWN if down else _LENGTH_UP, given, result, layout)


def _alike(words: list[str], *, unseen: bool) -> list[str]:
    """The words behind the first letters of one of them, as far as they are on the right side of the split."""
    if not all(word.isalpha() and word.islower() for word in words):
        return []
    made = dict.fromkeys(words[0][:2] + word for word in words)
    return [word for word in made if is_unseen(word) == unseen]
