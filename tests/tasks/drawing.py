"""Examples of tasks, for the tests that look at many."""

import random
from functools import lru_cache

from gesso.tasks import Example
from gesso.tasks.base import Task


@lru_cache(maxsize=64)
def _started(task: Task, evaluation: bool) -> tuple[random.Random, list[Example]]:
    return random.Random(11), []


def drawn(task: Task, n: int = 200, *, evaluation: bool = False) -> list[Example]:
    """The same `n` examples every time; those that another test has drawn are not drawn again."""
    rng, found = _started(task, evaluation)
    for i in range(len(found), n):
        found.append(task.sample_evaluation(rng, i) if evaluation else task.sample(rng))
    return found[:n]


def of_kind(examples: list[Example], kind: str) -> list[Example]:
    found = [example for example in examples if example.kind == kind]
    assert found
    return found
