"""Kinds of options: what a number may be, and the form that it is held in."""

from typing import Any

import pytest

from gesso.errors import OptionError
from gesso.options import Number


@pytest.mark.parametrize("value", [3, 3.0, 10**30])
def test_a_number_is_held_as_a_float(value: float) -> None:
    found = Number(minimum=0).check("x", value)
    assert isinstance(found, float)
    assert found == float(value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (10**400, "x must be a finite number"),
        (-(10**400), "x must be a finite number"),
        (float("nan"), "x must be a finite number, got nan"),
        (float("inf"), "x must be a finite number, got inf"),
        (-1, "x must be a number of at least 0, got -1"),
        (5, "x must be at most 4, got 5"),
        ("3", "x must be a number of at least 0, got '3'"),
        (True, "x must be a number of at least 0, got True"),
    ],
)
def test_what_is_no_number_or_out_of_bounds_is_refused(value: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message) as caught:
        Number(minimum=0, maximum=4).check("x", value)
    assert caught.value.option == "x"
