"""Arguments that functions are tried with tell right ones from those that are nearly right."""

import pytest

from gesso.tasks.run_code import load_function
from gesso.tasks.tried_arguments import tried_arguments


def tried(body: str, parameters: str = "x", *, of_texts: bool = False) -> list[tuple[object, ...]]:
    source = f"def f({parameters}):\n    return {body}"
    return tried_arguments(load_function(source, "f"), source, of_texts=of_texts)


def test_numbers_lie_around_those_that_the_code_names() -> None:
    assert {(56,), (57,), (58,), (-57,), (0,)} <= set(tried("x > 57"))
    assert {(57, 57), (58, 56)} <= set(tried("x > 57 and y > 57", "x, y"))
    assert tried("3", "") == [()]


@pytest.mark.parametrize("body", ["x[:26]", "x[-26:]", "x[26:]"])
def test_sequences_reach_beyond_what_a_slice_takes(body: str) -> None:
    lengths = {len(value) for (value,) in tried(body)}
    assert {25, 27} <= lengths
    assert {type(value) for (value,) in tried(body)} == {str, list}


def test_functions_that_take_both_are_tried_with_numbers_unless_texts_are_meant() -> None:
    assert all(isinstance(value, int) for values in tried("x + y", "x, y") for value in values)
    assert ("a", "hello") in tried("x + y", "x, y", of_texts=True)
    # Who asks for texts of what only numbers can be has numbers all the same.
    assert (1, 2) in tried("x - y", "x, y", of_texts=True)
