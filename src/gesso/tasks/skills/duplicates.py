"""Asks to remove repeated words or numbers from a list, keeping the first of each, or which are repeated."""

from collections import Counter
from typing import ClassVar

from gesso.tasks.base import Example
from gesso.tasks.skills.entries import OF_WORDS, draw_entries, draw_numbers
from gesso.tasks.skills.layouts import COMMAS, SPACES, TIGHT, draw_layout
from gesso.tasks.skills.patterns import read_phrasings
from gesso.tasks.skills.skill import Skill, is_label
from gesso.tasks.skills.slots import Slots

_ASK = read_phrasings("duplicates", "ask")
_REPEATED = read_phrasings("duplicates", "repeated")
_ONCE = read_phrasings("duplicates", "once")
_HAS = read_phrasings("duplicates", "has")
_KINDS = {"": _ASK, "repeated": _REPEATED, "once": _ONCE, "has": _HAS}
_KIND_WEIGHTS = (0.8, 0.08, 0.06, 0.06)
_WORDS_SHARE, _TRAINED_WORDS_SHARE = 0.75, 0.6
"""Numbers are learned later than words."""


class Duplicates(Skill):
    """Asks such as `Remove duplicates: grelt, fig, grelt` -> `grelt, fig`."""

    name = "duplicates"
    shouted = True
    phrasings: ClassVar = _KINDS

    def draw(self, slots: Slots) -> Example:
        """Draws two to five distinct items and one to four repetitions in between."""
        rng = slots.rng
        layout = draw_layout(rng)
        count = rng.randint(2, 5)
        words = rng.random() < (_WORDS_SHARE if slots.unseen else _TRAINED_WORDS_SHARE)
        if words:
            distinct = draw_entries(slots, count, spaced=layout != SPACES, copied=True)
        else:
            layout = COMMAS if layout == TIGHT else layout
            distinct = [text for _, text in draw_numbers(slots, count, spaced=layout != SPACES)]
        asked = rng.choices(tuple(_KINDS), _KIND_WEIGHTS)[0]
        if asked == "has" and rng.random() < 0.5:
            given = distinct
        elif asked == "repeated":
            given = distinct + [rng.choice(distinct)] * rng.randint(1, 2)
        else:
            given = distinct + rng.choices(distinct, k=rng.randint(1, 4))
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
        without = OF_WORDS if not words or any(" " in item for item in distinct) else ""
        prompt = slots.request(_KINDS[asked], layout.write(given), loose=layout == SPACES, without=without)
        return Example(self.name, prompt, answer, kind=slots.kind(asked or ("words" if words else "numbers")))

    def grade(self, example: Example, text: str) -> bool:
        """Accepts the list as it is to be; "yes" and "no" in whatever case, with or without a mark."""
        if example.answer.lower() in ("yes", "no"):
            return is_label(text, example.answer)
        return super().grade(example, text)
