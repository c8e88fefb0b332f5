"""What a command line or a grid says of a search."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from server.fake import RESULT

from gesso.engine.engine import Request
from gesso.engine.particles import MOST_PARTICLES
from gesso.engine.result import GenerationResult
from gesso.errors import OptionError
from gesso.generation import GenerationConfig
from gesso.options import Integer, options_of
from gesso.tasks.base import Example
from gesso.train.search_options import SearchOptions, answer_examples


@pytest.mark.parametrize(
    ("options", "option"),
    [
        ({"best_of": "four"}, "best_of"),
        ({"best_of": 2.5}, "best_of"),
        ({"best_of": True}, "best_of"),
        ({"best_of": 2, "check": 5}, "check"),
        ({"best_of": 2, "check": "task", "at_once": "x"}, "at_once"),
        ({"best_of": 2, "check": "task", "reference": 5}, "reference"),
        ({"best_of": 2, "check": "task", "augment": "no"}, "augment"),
        ({"best_of": 2, "select": 1}, "select"),
        ({"particles": 2.5}, "particles"),
        ({"particles": 2, "resample_every": "x"}, "resample_every"),
        ({"particles": 2, "reward_scale": "x"}, "reward_scale"),
        ({"particles": 2, "reward_scale": float("nan")}, "reward_scale"),
    ],
)
def test_values_of_another_type_are_refused(options: dict[str, Any], option: str) -> None:
    with pytest.raises(OptionError, match=f"{option} must be") as caught:
        SearchOptions(**options)
    assert caught.value.option == option


def test_particles_know_the_length_of_their_answers() -> None:
    assert SearchOptions(particles=2).request_defaults == {}
    assert SearchOptions(best_of=2).request_defaults == SearchOptions().request_defaults == {"max_new_tokens": 512}


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
    (attempt,) = answer_examples(engine, [example], [Request(example.prompt)], asked)  # type: ignore[arg-type]
    assert (attempt.seconds, len(attempt.results)) == (seconds, asked.best_of or 1)


def test_the_table_bounds_particles_as_they_are() -> None:
    assert options_of(SearchOptions)["particles"].kind == Integer(minimum=2, maximum=MOST_PARTICLES)
