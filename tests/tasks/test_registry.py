"""Tasks of one's own among those that are known."""

import random

import pytest

from gesso.errors import GessoError
from gesso.tasks.base import Example, Task
from gesso.tasks.registry import TASKS, TRAINING_TASKS, register


class Dashes(Task):
    """Joins words with dashes."""

    name = "dashes"

    def sample(self, rng: random.Random) -> Example:
        words = rng.sample(["pear", "fig", "plum"], 2)
        return Example(self.name, f"Join with dashes: {', '.join(words)}", "-".join(words))


class Sorting(Dashes):
    """Is called as another one."""

    name = "sorting"


def test_a_task_is_known_by_its_name_and_takes_the_place_of_itself() -> None:
    try:
        register(Dashes())
        register(again := Dashes())
        assert TASKS["dashes"] is TRAINING_TASKS["dashes"] is again
    finally:
        del TASKS["dashes"], TRAINING_TASKS["dashes"]


@pytest.mark.parametrize("task", [Dashes, object(), GessoError()])
def test_what_is_no_task_is_refused(task: Task) -> None:
    with pytest.raises(TypeError, match="an instance of a subclass"):
        register(task)


def test_a_task_takes_no_name_of_another() -> None:
    before = TASKS["sorting"]
    with pytest.raises(TypeError, match="task sorting: there is another of this name"):
        register(Sorting())
    assert TASKS["sorting"] is before
