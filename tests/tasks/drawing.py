"""Examples of tasks, for the tests that look at many."""

import random

from gesso.tasks import Example
from gesso.tasks.base import Task


def drawn(task: Task, n: int = 200, *, evaluation: bool = False) -> list[Example]:
    """The same `n` examples every time."""
    rng = random.Random(11)
    return [task.sample_evaluation(rng, i) if evaluation else task.sample(rng) for i in range(n)]


def of_kind(examples: list[Example], kind: str) -> list[Example]:
    found = [example for example in examples if example.kind == kind]
    assert found
    return found
