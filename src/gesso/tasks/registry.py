"""The tasks by name, and the mixture that the bundled model was trained on."""

from types import MappingProxyType

from gesso.tasks.arithmetic import Arithmetic
from gesso.tasks.base import Task
from gesso.tasks.code import Code
from gesso.tasks.counting import Counting
from gesso.tasks.editing import Editing
from gesso.tasks.ordering import Ordering
from gesso.tasks.to_json import ToJson

_ALL: tuple[Task, ...] = (ToJson(), Code(), Arithmetic(), Ordering(), Editing(), Counting())

TASKS: dict[str, Task] = {task.name: task for task in _ALL}

MINI_SKILLS: tuple[str, ...] = tuple(TASKS)

MINI_WEIGHTS: MappingProxyType[str, float] = MappingProxyType(
    {"json": 0.10, "code": 0.17, "arithmetic": 0.25, "ordering": 0.20, "editing": 0.18, "counting": 0.10}
)
"""Share of each skill among the training examples; the shares sum to one."""


def mini_mixture() -> list[tuple[Task, float]]:
    """Return the default tasks and weights for `training_stream`."""
    return [(TASKS[name], MINI_WEIGHTS[name]) for name in MINI_SKILLS]
