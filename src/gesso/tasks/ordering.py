"""Asks to sort words alphabetically or numbers by size."""

import random

from gesso.errors import DataError
from gesso.tasks.base import Example, Task
from gesso.tasks.words import POOL

_LENGTHS = (3, 6)
_WORD_SHARE = 0.7
_NUMBERS = range(100)


class Ordering(Task):
    """Asks such as `Sort: pear, fig, apple, kiwi` -> `apple, fig, kiwi, pear`."""

    name = "ordering"

    def sample(self, rng: random.Random) -> Example:
        """Draws three to six distinct words or distinct numbers below 100."""
        length = rng.randint(*_LENGTHS)
        if rng.random() < _WORD_SHARE:
            given = rng.sample(POOL, length)
            ordered = sorted(given)
        else:
            numbers = rng.sample(_NUMBERS, length)
            given = [str(number) for number in numbers]
            ordered = [str(number) for number in sorted(numbers)]
        return Example(self.name, f"Sort: {', '.join(given)}", ", ".join(ordered))

    def score(self, prompt: str, text: str) -> float:
        """Sorts what the prompt lists; 1 for the sorted list, else 0."""
        head, colon, listed = prompt.strip().partition(": ")
        if head != "Sort" or not colon:
            raise DataError(f"no prompt to sort by: {prompt!r}")
        items = listed.split(", ")
        numbers = all(item.isdecimal() and item.isascii() for item in items)
        if not numbers and not all(item.isalpha() and item.islower() for item in items):
            raise DataError(f"no list of small words, or of whole numbers, to sort by: {prompt!r}")
        return float(text.strip() == ", ".join(sorted(items, key=int) if numbers else sorted(items)))
