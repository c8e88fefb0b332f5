"""Kinds of options: what a number may be, and the form that it is held in."""

from typing import Any

import numpy as np
import pytest

from gesso.errors import OptionError
from gesso.options import Integer, Number, OneOf
from gesso.options.compound_kinds import BiasMap
from gesso.options.kinds import Kind


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


@pytest.mark.parametrize(("value", "rule"), [(-1, "a number above 0"), ("3", "a number above 0"), (0, "above 0")])
def test_a_bound_that_is_not_a_value_itself_is_told_as_one(value: Any, rule: str) -> None:
    with pytest.raises(OptionError, match=f"^x must be {rule}, got {value!r}$"):
        Number(above=0).check("x", value)


@pytest.mark.parametrize(
    ("kind", "value", "held"),
    [
        (Integer(minimum=0), np.int64(7), 7),
        (Number(minimum=0), np.float32(0.5), 0.5),
        (Number(minimum=0), np.int32(2), 2.0),
        (OneOf((70, 140)), np.uint8(70), 70),
    ],
)
def test_numbers_of_numpy_are_held_as_pythons(kind: Kind, value: Any, held: float) -> None:
    found = kind.check("x", value)
    assert found == held
    assert type(found) is type(held)


@pytest.mark.parametrize("value", [np.float64(7), np.bool_(True), True, 7.0, "7"])
def test_what_is_no_whole_number_is_refused(value: Any) -> None:
    with pytest.raises(OptionError, match="x must be an integer of at least 0"):
        Integer(minimum=0).check("x", value)


def test_a_bias_is_held_by_whole_numbers_and_has_a_bound_however_large() -> None:
    found = BiasMap(100.0).check("x", {np.int64(5): np.float32(0.5)})
    assert found == {5: 0.5}
    assert {type(part) for item in found.items() for part in item} == {int, float}
    with pytest.raises(OptionError, match="x of token 5 must be at most 100 in size"):
        BiasMap(100.0).check("x", {5: 10**400})
