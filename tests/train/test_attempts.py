"""Examples of an evaluation are answered once, or by a search."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from server.fake import RESULT

from gesso.control.search_options import SearchOptions
from gesso.engine.engine import Request
from gesso.engine.result import GenerationResult
from gesso.generation import GenerationConfig
from gesso.tasks.base import Example
from gesso.tasks.registry import TASKS
from gesso.train.attempts import answer_examples


class Slower:
    """Takes a second for the first answer, two for the second, and so on; answers of a batch are made side by side."""

    def __init__(self) -> None:
        self.made = 0
        self.defaults = GenerationConfig()

    def generate_batch(self, requests: Sequence[Request]) -> list[GenerationResult]:
        first, self.made = self.made + 1, self.made + len(requests)
        return [replace(RESULT, text="wrong", seconds=float(n)) for n in range(first, self.made + 1)]


@pytest.mark.parametrize(
    ("asked", "seconds"),
    [
        (SearchOptions(), 1),
        (SearchOptions(best_of=5, select="consistency"), 5),
        (SearchOptions(best_of=5, check="task"), 1 + 2 + 3 + 4 + 5),
        (SearchOptions(best_of=5, check="task", at_once=2), 2 + 4 + 5),
    ],
)
def test_answers_made_side_by_side_take_the_time_of_the_slowest(asked: SearchOptions, seconds: float) -> None:
    example, engine = Example("arithmetic", "What is 2 + 3?", "5"), Slower()
    (attempt,) = answer_examples(engine, TASKS["arithmetic"], [example], [Request(example.prompt)], asked)  # type: ignore[arg-type]
    assert (attempt.seconds, len(attempt.results)) == (seconds, asked.best_of or 1)
