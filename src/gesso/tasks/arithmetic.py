"""Asks for sums and differences of numbers of up to three digits."""

import random
import re

from gesso.errors import DataError
from gesso.tasks.base import Example, Task

_RANGES = ((0, 9), (10, 99), (100, 999))
_RANGE_WEIGHTS = (0.12, 0.23, 0.65)
_QUESTION_SHARE = 0.85
_TRAINING_PLUS_SHARE = 0.35
_TERM = re.compile(r"(?:What is )?(\d+) ([+-]) (\d+)(?: =)? ?\?")


class Arithmetic(Task):
    """Asks such as `What is 481 + 296?` -> `777`."""

    name = "arithmetic"

    def sample(self, rng: random.Random) -> Example:
        """Draws operands of one to three digits each, mostly three; differences may be negative.

        They are drawn more often than sums: they take longer to learn.
        """
        return self._draw(rng, plus_share=_TRAINING_PLUS_SHARE)

    def sample_evaluation(self, rng: random.Random, index: int) -> Example:  # noqa: ARG002
        """Draws sums and differences equally often."""
        return self._draw(rng, plus_share=0.5)

    def score(self, prompt: str, text: str) -> float:
        """Computes the term of the prompt; 1 for its value, else 0."""
        found = _TERM.fullmatch(prompt.strip())
        if found is None:
            raise DataError(f"no arithmetic prompt: {prompt!r}")
        left, right = int(found[1]), int(found[3])
        return float(text.strip() == str(left + right if found[2] == "+" else left - right))

    def _draw(self, rng: random.Random, plus_share: float) -> Example:
        left, right = (rng.randint(*bounds) for bounds in rng.choices(_RANGES, _RANGE_WEIGHTS, k=2))
        plus = rng.random() < plus_share
        term = f"{left} {'+' if plus else '-'} {right}"
        prompt = f"What is {term}?" if rng.random() < _QUESTION_SHARE else f"{term} = ?"
        return Example(self.name, prompt, str(left + right if plus else left - right))
