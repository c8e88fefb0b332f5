"""Asks to remove repeated words or numbers from a list, keeping the first of each, or which are repeated."""

from collections import Counter
from typing import ClassVar

from gesso.tasks.base import Example
from gesso.tasks.skills.duplicates.kinds import MORE_KINDS, MORE_SECTIONS
from gesso.tasks.skills.entries import OF_WORDS, draw_entries, draw_numbers
from gesso.tasks.skills.layouts import COMMAS, LINES, SPACES, TIGHT
from gesso.tasks.skills.lexicon import common_words
from gesso.tasks.skills.patterns import read_phrasings
from gesso.tasks.skills.placing import placed_request
from gesso.tasks.skills.skill import Skill, is_label
from gesso.tasks.skills.slots import Slots
from gesso.tasks.skills.things import draw_things
from gesso.tasks.skills.wide_layouts import draw_number_layout, draw_wide_layout

_ASK = read_phrasings("duplicates", "ask")
_REPEATED = read_phrasings("duplicates", "repeated")
_ONCE = read_phrasings("duplicates", "once")
_HAS = read_phrasings("duplicates", "has")
_KINDS = {"": _ASK, "repeated": _REPEATED, "once": _ONCE, "has": _HAS}
_KIND_WEIGHTS = (0.48, 0.07, 0.055, 0.05)
_MORE_WEIGHTS = {
    "last": 0.08, "case": 0.035, "exact": 0.035, "doubled": 0.045, "letters": 0.09, "sorted": 0.02,
    "neighbours": 0.01, "several": 0.05, "most": 0.02, "two lists": 0.03, "code": 0.015,
}  # fmt: skip
_WORDS_SHARE, _TRAINED_WORDS_SHARE = 0.75, 0.6
"""Numbers are learned later than words."""
_THINGS_SHARE = 0.25
_ALIKE_SHARE = 0.06
"""How often all items are the same."""
_SHORT_SHARE, _ROWS_SHARE = 0.1, 0.03
_SHORT = tuple(word for word in common_words() if len(word) == 3)
_OF_NUMBERS = r"\bnumbers?\b"
"""Patterns that are not for words."""
_OF_THINGS = r"\b(playlist|guest|shopping|packing|tags|labels|keywords)\b"
"""Patterns that are not for numbers or codes."""


class Duplicates(Skill):
    """Asks such as `Remove duplicates: grelt, fig, grelt` -> `grelt, fig`."""

    name = "duplicates"
    shouted = True
    never_shouted = ("exact",)
    phrasings: ClassVar = {**_KINDS, **MORE_SECTIONS}

    def draw(self, slots: Slots) -> Example:
        """Draws two to five distinct items and one to four repetitions in between; one time in four, another question
        about repetitions."""
        asked = slots.rng.choices((*_KINDS, *_MORE_WEIGHTS), (*_KIND_WEIGHTS, *_MORE_WEIGHTS.values()))[0]
        if asked in MORE_KINDS:
            prompt, answer = MORE_KINDS[asked](slots)
            return Example(self.name, prompt, answer, kind=slots.kind(asked))
        return self._plain(slots, asked)

    def grade(self, example: Example, text: str) -> bool:
        """Accepts the list as it is to be; "yes" and "no" in whatever case, with or without a mark."""
        if example.answer.lower() in ("yes", "no"):
            return is_label(text, example.answer)
        return super().grade(example, text)

    def _plain(self, slots: Slots, asked: str) -> Example:
        rng = slots.rng
        layout = draw_wide_layout(rng, numbered=asked == "")
        count = 1 if asked == "" and rng.random() < _ALIKE_SHARE else rng.randint(2, 5)
        spaced = layout.separator != SPACES.separator
        words = rng.random() < (_WORDS_SHARE if slots.unseen else _TRAINED_WORDS_SHARE)
        if words:
            distinct = _words(slots, count, spaced=spaced)
            if rng.random() < _ROWS_SHARE:
                layout, distinct = LINES, _rows(slots, count)
        else:
            layout = draw_number_layout(rng, numbered=asked == "")
            spaced = layout.separator != SPACES.separator
            layout = COMMAS if layout == TIGHT and count <= 2 else layout
            distinct = [text for _, text in draw_numbers(slots, count, spaced=spaced)]
        if any(layout.separator in item for item in distinct):
            layout = COMMAS
        if asked == "has" and rng.random() < 0.5:
            given = distinct
        elif asked == "repeated":
            given = distinct + [rng.choice(distinct)] * rng.randint(1, 2)
        else:
            given = distinct + rng.choices(distinct, k=rng.randint(1 if count > 1 else 2, 4))
        rng.shuffle(given)
        times = Counter(given)
        if asked == "has":
            answer = "yes" if len(times) < len(given) else "no"
        elif asked == "":
            answer = layout.answer(list(times))
        else:
            found = [item for item in times if (times[item] > 1) == (asked == "repeated")]
            if not found:
                asked, found = "", list(times)
            answer = layout.answer(found) if len(found) > 1 else found[0]
        no_words = not all(item.isalpha() for item in distinct)
        without = "|".join([OF_WORDS, _OF_THINGS] * no_words + [_OF_NUMBERS] * words)
        prompt = placed_request(
            slots, _KINDS[asked], layout.write(given), count=len(given), loose=layout == SPACES, without=without,
            joint=layout.separator,
        )  # fmt: skip
        return Example(self.name, prompt, answer, kind=slots.kind(asked or ("words" if words else "numbers")))


def _words(slots: Slots, count: int, *, spaced: bool) -> list[str]:
    """Draws distinct words, names or things, now and then short words as people try first."""
    drawn = slots.rng.random()
    if drawn < _THINGS_SHARE:
        return draw_things(slots, count, spaced=spaced)
    if drawn < _THINGS_SHARE + _SHORT_SHARE and not slots.unseen:
        return slots.rng.sample(_SHORT, count)
    return draw_entries(slots, count, spaced=spaced, copied=True)


def _rows(slots: Slots, count: int) -> list[str]:
    """Draws distinct rows of two values, as tables have."""
    joint = slots.rng.choice((",", ";", " | "))
    numbers = slots.numbers(count, 3)
    return [f"{slots.word()}{joint}{number}" for number in numbers]
