"""Lists the tasks by name, and those that each bundled model was trained on."""

from pathlib import PurePath
from types import MappingProxyType

from gesso.errors import OptionError
from gesso.tasks.arithmetic import Arithmetic
from gesso.tasks.base import Task
from gesso.tasks.code import Code
from gesso.tasks.counting import Counting
from gesso.tasks.editing import Editing
from gesso.tasks.ordering import Ordering
from gesso.tasks.revision import Revision, RevisionInFile
from gesso.tasks.sight.catalogue import SIGHT
from gesso.tasks.sight.first import First
from gesso.tasks.sight.talks import Talks
from gesso.tasks.skills.catalogue import SKILLS
from gesso.tasks.skills.filling import Filling
from gesso.tasks.sql import Sql
from gesso.tasks.sudoku import HARD, SPARSE, Sudoku
from gesso.tasks.sudoku_long import LongSudoku
from gesso.tasks.to_json import ToJson

_MINI: tuple[Task, ...] = (ToJson(), Code(), Arithmetic(), Ordering(), Editing(), Counting())

_SKILLS = tuple(skill for skill in SKILLS if skill.name != "filling")
TASKS: dict[str, Task] = {
    task.name: task for task in (*_MINI, Revision(), RevisionInFile(), Sudoku(), Sql(), *_SKILLS, *SIGHT)
}

TRAINING_TASKS: dict[str, Task] = {
    **TASKS,
    "sudoku-sparse": Sudoku(SPARSE),
    "sudoku-hard": Sudoku(HARD),
    "sudoku-long": LongSudoku(),
    "filling": Filling(),
    "sight-first": First(),
    "sight-talks": Talks(),
}
"""And those that differ in what training draws alone, or whose answers cannot be told from their prompts."""


def find_task(name: str) -> Task:
    """Returns the task of a name.

    Raises:
        OptionError: there is none.
    """
    if name not in TASKS:
        raise OptionError(f"no task {name!r}; known: {', '.join(TASKS)}", option="task")
    return TASKS[name]


def register(task: Task) -> None:
    """Makes a task known by its name, to what measures and to what trains.

    It takes the place of itself as it was before, for a cell of a notebook is run again.

    Raises:
        TypeError: it is no task, or there is another of its name.
    """
    if Task not in type(task).__mro__ or not isinstance(getattr(task, "name", None), str):
        raise TypeError(f"a task is an instance of a subclass of gesso.tasks.base.Task with a name, got {task!r:.60}")
    known = TRAINING_TASKS.get(task.name)
    if known is not None and _place(known) != _place(task):
        raise TypeError(f"task {task.name}: there is another of this name")
    TASKS[task.name] = TRAINING_TASKS[task.name] = task


def _place(task: Task) -> tuple[str, str]:
    return type(task).__module__, type(task).__qualname__


MINI_SKILLS: tuple[str, ...] = tuple(task.name for task in _MINI)

_MODEL_TASKS = {
    "sudoku": ("sudoku",),
    "skills": tuple(skill.name for skill in _SKILLS),
    "sight": tuple(task.name for task in SIGHT),
}

MINI_WEIGHTS: MappingProxyType[str, float] = MappingProxyType(
    {"json": 0.10, "code": 0.17, "arithmetic": 0.25, "ordering": 0.20, "editing": 0.18, "counting": 0.10}
)
"""Share of each skill among the training examples; the shares sum to one."""


def mini_mixture() -> list[tuple[Task, float]]:
    """Returns the default tasks and weights for `training_stream`."""
    return [(TASKS[name], MINI_WEIGHTS[name]) for name in MINI_SKILLS]


def default_tasks(model: str) -> tuple[str, ...]:
    """Returns the names of the tasks for a model, by the last part of its name or path: the six skills of `mini`
    unless it is one that was trained on others."""
    return _MODEL_TASKS.get(PurePath(model).name, MINI_SKILLS)
