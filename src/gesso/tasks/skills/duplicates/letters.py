"""Draws what is asked of the letters of a word that stand in it more than once."""

from collections import Counter
from itertools import groupby

from gesso.tasks.skills.patterns import read_phrasings
from gesso.tasks.skills.placing import placed_request
from gesso.tasks.skills.slots import Slots

_ASKED = ("letters", "letters repeated", "letter", "runs")
_WEIGHTS = (0.37, 0.32, 0.2, 0.11)
LETTER_SECTIONS = {name: read_phrasings("duplicates", name) for name in _ASKED}
_LONGEST = 9
"""Longer words have too many letters again."""


def ask_letters(slots: Slots) -> tuple[str, str]:
    """Asks for letters of a word: each once, no two alike side by side, or those that are there twice or more."""
    rng = slots.rng
    asked = rng.choices(_ASKED, _WEIGHTS)[0]
    several = rng.random() < 0.8
    while True:
        word = slots.word()
        times = Counter(word)
        again = [letter for letter in times if times[letter] > 1]
        if asked == "runs":
            word = "".join(letter * rng.choice((1, 1, 1, 2, 3)) for letter in word)
            answer = "".join(letter for letter, _ in groupby(word))
            fits = len(answer) < len(word)
        elif asked == "letter":
            answer = "".join(again)
            fits = len(again) == 1 and times[answer] == 2
        elif asked == "letters repeated":
            answer = ", ".join(again)
            fits = bool(again) and (len(again) > 1) == several and len(word) <= _LONGEST
        else:
            answer = "".join(times)
            fits = bool(again)
        if fits:
            return placed_request(slots, LETTER_SECTIONS[asked], word), answer
