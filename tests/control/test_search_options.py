"""What a command line or a grid says of a search."""

from typing import Any

import pytest

from gesso.control.search_options import SearchOptions
from gesso.engine.particles import MOST_PARTICLES
from gesso.errors import OptionError
from gesso.options import Integer, options_of


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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"best_of": 2, "particles": 2}, "best_of and particles contradict each other"),
        ({"at_once": 2}, "at_once needs best_of"),
        ({"resample_every": 2}, "resample_every needs particles"),
        ({"best_of": 2, "at_once": 2}, "at_once needs check: "),
    ],
)
def test_who_writes_no_flags_reads_none(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=f"^{message}"):
        SearchOptions(**options)


def test_particles_know_the_length_of_their_answers() -> None:
    assert SearchOptions(particles=2).request_defaults == {}
    assert SearchOptions(best_of=2).request_defaults == SearchOptions().request_defaults == {"max_new_tokens": 512}


def test_the_table_bounds_particles_as_they_are() -> None:
    assert options_of(SearchOptions)["particles"].kind == Integer(minimum=2, maximum=MOST_PARTICLES)
