"""Asks to sort any words, numbers or things, up or down, or words by their length."""

from typing import ClassVar

from gesso.tasks.base import Example
from gesso.tasks.skills.entries import draw_entries, draw_numbers
from gesso.tasks.skills.layouts import COMMAS, SPACES, TIGHT, Layout
from gesso.tasks.skills.lexicon import dictionary, is_unseen
from gesso.tasks.skills.patterns import read_phrasings
from gesso.tasks.skills.skill import Skill
from gesso.tasks.skills.slots import Slots
from gesso.tasks.skills.sorting.days import DAY_SECTIONS, dates
from gesso.tasks.skills.sorting.kinds import KIND_SECTIONS, code, letters, mixed_numbers, pairs, surnames, things
from gesso.tasks.skills.sorting.lengths import LENGTH_SECTIONS, by_length
from gesso.tasks.skills.sorting.lists import OF_GOODS, OF_WHOLE, Sorted
from gesso.tasks.skills.sorting.repeats import REPEAT_SECTIONS, repeats
from gesso.tasks.skills.wide_layouts import draw_number_layout, draw_wide_layout

_WORDS_UP = read_phrasings("sorting", "words_up")
_WORDS_DOWN = read_phrasings("sorting", "words_down")
_NUMBERS_UP = read_phrasings("sorting", "numbers_up")
_NUMBERS_DOWN = read_phrasings("sorting", "numbers_down")
_COUNTS = (2, 3, 4, 5, 6, 7)
_COUNT_WEIGHTS = (0.1, 0.25, 0.25, 0.2, 0.12, 0.08)
_WORDS_SHARE, _TRAINED_WORDS_SHARE = 0.65, 0.5
"""Numbers are learned later than words."""
_KIND_WEIGHTS = {
    "plain": 0.57, "length": 0.06, "mixed numbers": 0.08, "things": 0.06, "dates": 0.085, "pairs": 0.045,
    "repeats": 0.04, "last names": 0.015, "letters": 0.02, "code": 0.025,
}  # fmt: skip
_LISTS = {"mixed numbers": mixed_numbers, "things": things, "pairs": pairs, "last names": surnames}
_FEW = {"dates": dates, "repeats": repeats}
"""Draw few items, whatever the count."""
_COLUMNS = (Layout("    "), Layout("\t"))
_COLUMNS_SHARE = 0.02


class Sorting(Skill):
    """Asks such as `Put these words in order: offset, grelt, banana` -> `banana, grelt, offset`."""

    name = "sorting"
    shouted = True
    phrasings: ClassVar = {
        "words": _WORDS_UP,
        "down": _WORDS_DOWN,
        "numbers": _NUMBERS_UP,
        "numbers down": _NUMBERS_DOWN,
        **LENGTH_SECTIONS,
        **DAY_SECTIONS,
        **REPEAT_SECTIONS,
        **KIND_SECTIONS,
    }

    def draw(self, slots: Slots) -> Example:
        """Draws two to seven words, names, codes or numbers (numbers more often in training), in one of many layouts;
        one in four is sorted downwards. Of words, case does not count. Two in five are words by their length,
        things, dates, pairs, lists with repeats, letters or code."""
        rng = slots.rng
        count = rng.choices(_COUNTS, _COUNT_WEIGHTS)[0]
        down = rng.random() < 0.25
        kind = rng.choices(list(_KIND_WEIGHTS), list(_KIND_WEIGHTS.values()))[0]
        if kind in _FEW:
            prompt, answer = _FEW[kind](slots, down).ask(slots)
        elif kind in _LISTS:
            prompt, answer = _LISTS[kind](slots, count, down).ask(slots)
        elif kind == "letters":
            prompt, answer = letters(slots, down)
        elif kind == "code":
            prompt, answer = code(slots, count, down)
        elif kind == "length":
            prompt, answer = by_length(slots, down)
        elif rng.random() < (_WORDS_SHARE if slots.unseen else _TRAINED_WORDS_SHARE):
            kind = "words"
            prompt, answer = _words(slots, count, down).ask(slots)
        else:
            kind = "numbers"
            prompt, answer = _numbers(slots, count, down).ask(slots)
        return Example(self.name, prompt, answer, kind=slots.kind(kind))


def _layout(slots: Slots, layout: Layout) -> Layout:
    """The layout; now and then columns, as a table gives them."""
    return slots.rng.choice(_COLUMNS) if slots.rng.random() < _COLUMNS_SHARE else layout


def _words(slots: Slots, count: int, down: bool) -> Sorted:
    """Words, names, phrases or codes."""
    rng = slots.rng
    layout = _layout(slots, draw_wide_layout(rng, numbered=True))
    given = draw_entries(slots, count, spaced=layout.separator != SPACES.separator)
    if rng.random() < 0.2:  # a common beginning, so that later letters decide
        given = (_neighbours(slots, count) if rng.random() < 0.5 else _alike(given, unseen=slots.unseen)) or given
    if rng.random() < 0.1:
        given = [word.capitalize() if word.islower() else word for word in given]
    if any(layout.separator in item for item in given):
        layout = COMMAS
    result = sorted(given, key=str.lower, reverse=down)
    without = OF_GOODS if any(char.isdigit() for item in given for char in item) else ""
    return Sorted(_WORDS_DOWN if down else _WORDS_UP, given, result, layout, without)


def _numbers(slots: Slots, count: int, down: bool) -> Sorted:
    """Numbers of one form."""
    layout = _layout(slots, draw_number_layout(slots.rng, numbered=True))
    if layout == TIGHT and count == 2:
        layout = COMMAS
    numbers = draw_numbers(slots, count, spaced=layout.separator != SPACES.separator)
    result = [text for _, text in sorted(numbers, reverse=down)]
    without = "" if all(text.isdigit() for text in result) else OF_WHOLE
    return Sorted(_NUMBERS_DOWN if down else _NUMBERS_UP, [text for _, text in numbers], result, layout, without)


def _alike(words: list[str], *, unseen: bool) -> list[str]:
    """The words behind the first letters of one of them, as far as they are on the right side of the split."""
    if not all(word.isalpha() and word.islower() for word in words):
        return []
    made = dict.fromkeys(words[0][:2] + word for word in words)
    return [word for word in made if is_unseen(word) == unseen]


def _neighbours(slots: Slots, count: int) -> list[str]:
    """Words of the dictionary that are near each other in it."""
    words, width = dictionary(), 320 if slots.unseen else 20
    start = slots.rng.randrange(len(words) - width)
    near = [word for word in words[start : start + width] if is_unseen(word) == slots.unseen]
    return slots.rng.sample(near, min(count, len(near))) if len(near) > 1 else []
