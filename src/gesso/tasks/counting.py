"""Asks to count in full from one number to another: the task whose answers are longer than one canvas."""

import random
import re

from gesso.errors import DataError
from gesso.tasks.base import Example, Task

_MAX_START = 30
_MAX_END = 99
_SHORT_SHARE = 0.5
_SHORT_COUNT = (2, 14)
_FROM_ONE_SHARE = 0.5
_EVALUATION_TOKENS = 45
"""Evaluation answers have at least this many tokens, so more than one canvas of 32."""

_PROMPT = re.compile(r"Count from (\d{1,4}) to (\d{1,4}) separated by commas\.")


class Counting(Task):
    """Asks such as `Count from 1 to 60 separated by commas.` -> `1, 2, 3, ..., 60` in full."""

    name = "counting"

    def sample(self, rng: random.Random) -> Example:
        """Draws a start up to 30, half of the time 1, and an end up to 99.

        Every second count is a short one from anywhere: where to end is told by one token of a count, and a long
        count has two hundred others.
        """
        if rng.random() < _SHORT_SHARE:
            count = rng.randint(*_SHORT_COUNT)
            start = rng.randint(1, _MAX_END - count + 1)
            return self._example(start, start + count - 1)
        start = 1 if rng.random() < _FROM_ONE_SHARE else rng.randint(1, _MAX_START)
        return self._example(start, rng.randint(start + _SHORT_COUNT[1], _MAX_END))

    def sample_evaluation(self, rng: random.Random, index: int) -> Example:  # noqa: ARG002
        """Draws start and end uniformly among the answers that need more than one canvas."""
        while True:
            example = self._example(rng.randint(1, _MAX_START), rng.randint(1, _MAX_END))
            # A digit and a comma with its space are one token each, a space is none of its own.
            if len(example.answer.replace(" ", "")) >= _EVALUATION_TOKENS:
                return example

    def score(self, prompt: str, text: str) -> float:
        """Counts as the prompt asks; 1 for the whole count, else 0."""
        found = _PROMPT.fullmatch(prompt.strip())
        if found is None or int(found[1]) > int(found[2]):
            raise DataError(f"no prompt to count by: {prompt!r}")
        return float(self.grade(self._example(int(found[1]), int(found[2])), text))

    def _example(self, start: int, end: int) -> Example:
        answer = ", ".join(str(number) for number in range(start, end + 1))
        return Example(self.name, f"Count from {start} to {end} separated by commas.", answer)
