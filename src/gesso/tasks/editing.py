"""Asks for four edits of a short list of words: replace, upper case, reverse, remove duplicates."""

import random
from collections.abc import Callable

from gesso.tasks.base import Example, Task
from gesso.tasks.words import POOL

_LENGTHS = (3, 8)


class Editing(Task):
    """Asks such as `Reverse the words: cat bird fish` -> `fish bird cat`, and three more edits."""

    name = "editing"

    def sample(self, rng: random.Random) -> Example:
        """Draws one of the four edits over three to eight words, the hardest more often."""
        return self._example(*rng.choices(_EDITS, _TRAINING_WEIGHTS)[0](rng, rng.randint(*_LENGTHS)))

    def sample_evaluation(self, rng: random.Random, index: int) -> Example:  # noqa: ARG002
        """Draws the four edits equally often."""
        return self._example(*rng.choice(_EDITS)(rng, rng.randint(*_LENGTHS)))

    def _example(self, instruction: str, given: list[str], edited: list[str]) -> Example:
        return Example(self.name, f"{instruction}: {' '.join(given)}", " ".join(edited))


_Edit = tuple[str, list[str], list[str]]


def _replace(rng: random.Random, length: int) -> _Edit:
    old, new, *others = rng.sample(POOL, length + 2)
    repeats = rng.randint(1, min(3, length))
    given = [old] * repeats + others[: length - repeats]
    rng.shuffle(given)
    edited = [new if word == old else word for word in given]
    return f'Replace every "{old}" with "{new}"', given, edited


def _upper(rng: random.Random, length: int) -> _Edit:
    given = rng.sample(POOL, length)
    return "Write in upper case", given, [word.upper() for word in given]


def _reverse(rng: random.Random, length: int) -> _Edit:
    given = rng.sample(POOL, length)
    return "Reverse the words", given, given[::-1]


def _deduplicate(rng: random.Random, length: int) -> _Edit:
    distinct = rng.sample(POOL, rng.randint((length + 1) // 2, length - 1))
    given = distinct + rng.choices(distinct, k=length - len(distinct))
    rng.shuffle(given)
    return "Remove duplicates", given, list(dict.fromkeys(given))


_EDITS: tuple[Callable[[random.Random, int], _Edit], ...] = (_replace, _upper, _reverse, _deduplicate)
_TRAINING_WEIGHTS = (0.15, 0.1, 0.15, 0.6)
