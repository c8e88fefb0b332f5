"""Tasks of one's own among those that are known."""

import random

import pytest

from gesso.errors import GessoError
from gesso.tasks.base import Example, Task
from gesso.tasks.registry import TASKS, TRAINING_TASKS, register


class Hyphens(Task):
    """Joins words with hyphens."""

    name = "hyphens"

    def sample(self, rng: random.Random) -> Example:
        words = rng.sample(["pear", "fig", "plum"], 2)
        return Example(self.name, f"Join with hyphens: {', '.join(words)}", "-".join(words))


class Sorting(Hyphens):
    """Is called as another one."""

    name = "sorting"


def test_a_task_is_known_by_its_name_and_takes_the_place_of_itself() -> None:
    try:
        register(Hyphens())
        register(again := Hyphens())
        assert TASKS["hyphens"] is TRAINING_TASKS["hyphens"] is again
    finally:
        del TASKS["hyphens"], TRAINING_TASKS["hyphens"]


@pytest.mark.parametrize("task", [Hyphens, object(), GessoError()])
def test_what_is_no_task_is_refused(task: Task) -> None:
    with pytest.raises(TypeError, match="an instance of a subclass"):
        register(task)


def test_a_task_takes_no_name_of_another() -> None:
    before = TASKS["sorting"]
    with pytest.raises(TypeError, match="task sorting: there is another of this name"):
        register(Sorting())
    assert TASKS["sorting"] is before
