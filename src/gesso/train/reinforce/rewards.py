"""Makes rewards that can be verified: a task's grader, a user's function, a reference, or unit tests in the sandbox."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gesso.control.grading import Grader, grade
from gesso.errors import DataError
from gesso.tasks.base import Example, Task
from gesso.tasks.run_code import UnsafeCodeError, load_function, outcome

Reward = Callable[[str], float]


@dataclass(frozen=True, slots=True)
class Graded:
    """Rewards an answer by a task's grader: 1 where it is right, else 0."""

    task: Task
    example: Example

    def __call__(self, text: str) -> float:
        return float(self.task.grade(self.example, text))


@dataclass(frozen=True, slots=True)
class Judged:
    """Rewards an answer by a function of prompt and answer."""

    grader: Grader
    prompt: str

    def __call__(self, text: str) -> float:
        return grade(self.grader, self.prompt, text, "reward")


@dataclass(frozen=True, slots=True)
class Same:
    """Rewards an answer that is the reference, white space around both aside."""

    reference: str

    def __call__(self, text: str) -> float:
        return float(text.strip() == self.reference.strip())


@dataclass(frozen=True, slots=True)
class UnitTests:
    """Rewards a function by the share of its unit tests that hold; it runs in the sandbox of `gesso.tasks.run_code`."""

    function: str
    tests: tuple[tuple[tuple[Any, ...], Any], ...]
    """Arguments, and what the function returns for them: of the same type."""

    def __call__(self, text: str) -> float:
        try:
            function = load_function(text, self.function)
        except UnsafeCodeError:
            return 0.0
        held = sum(
            outcome(function, arguments) == (type(expected).__name__, expected) for arguments, expected in self.tests
        )
        return held / len(self.tests)


def unit_tests(function: object, tests: object) -> UnitTests:
    """Reads unit tests as a line of data has them: `[{"arguments": [...], "returns": ...}, ...]`.

    Raises:
        DataError: they are something else.
    """
    if not isinstance(function, str) or not function.isidentifier():
        raise DataError("tests need function, the name of what they call")
    if not isinstance(tests, Sequence) or isinstance(tests, str) or not tests:
        raise DataError("tests must be a list of objects, and not empty")
    read = []
    for test in tests:
        if (
            not isinstance(test, dict)
            or set(test) != {"arguments", "returns"}
            or not isinstance(test["arguments"], list)
        ):
            raise DataError('a test is an object such as {"arguments": [1, 2], "returns": 3}')
        read.append((tuple(test["arguments"]), test["returns"]))
    return UnitTests(function, tuple(read))
