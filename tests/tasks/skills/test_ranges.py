"""Rows are those that the requests ask for."""

import itertools
import re
from datetime import date, timedelta

import pytest

from gesso.tasks import TASKS
from tasks.drawing import drawn, of_kind


@pytest.mark.parametrize("kind", ["kind", "multiples", "letters", "first"])
def test_ranges_of_other_kinds(kind: str) -> None:
    for example in of_kind(drawn(TASKS["ranges"], 3000), kind):
        items = re.findall(r"[A-Za-z]|-?\d+", example.answer.replace("- ", ""))
        if kind == "letters":
            assert "".join(items) in "abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ"
        else:
            numbers = [abs(int(item)) for item in items]
            steps = {b - a for a, b in itertools.pairwise(numbers)}
            assert len(steps) <= 1 or kind == "first"
            if kind == "kind":
                assert steps <= {2}
                assert ("odd" in example.prompt.lower()) == bool(numbers[0] % 2)


def test_ranges_of_python_are_pythons() -> None:
    checked = 0
    for example in of_kind(drawn(TASKS["ranges"], 6000), "python"):
        found = re.search(r"range\([-\d, ]+\)", example.prompt)
        if found:
            assert [int(n) for n in re.findall(r"-?\d+", example.answer)] == list(eval(found[0])), example.prompt
            assert example.answer.startswith("[") or not re.search(r"(?<![(*])list\(", example.prompt)
            checked += 1
    assert checked > 100


@pytest.mark.parametrize("kind", ["blanks", "dots"])
def test_rows_with_gaps_are_filled_evenly(kind: str) -> None:
    whole = 0
    for example in of_kind(drawn(TASKS["ranges"], 5000), kind):
        items = re.findall(r"[A-Za-z]|\d+", example.answer)
        numbers = [int(item) if item.isdigit() else ord(item) for item in items]
        steps = {b - a for a, b in itertools.pairwise(numbers)}
        if len(numbers) > 4:  # more than are ever missing
            assert len(steps) == 1, example.prompt
            whole += 1
    assert whole > 20


def test_rows_go_the_way_that_their_ends_say() -> None:
    down = 0
    for example in of_kind(drawn(TASKS["ranges"], 6000), "either"):
        given, answer = re.findall(r"\d+", example.prompt), re.findall(r"\d+", example.answer)
        if given[:2] == [answer[0], answer[-1]]:
            numbers = [int(n) for n in answer]
            assert numbers in (
                list(range(numbers[0], numbers[-1] + 1)), list(range(numbers[0], numbers[-1] - 1, -1))
            ), example.prompt  # fmt: skip
            down += numbers[0] > numbers[-1]
    assert down > 50


def test_doubled_numbers_and_dates() -> None:
    examples = drawn(TASKS["ranges"], 6000)
    for example in of_kind(examples, "doubling"):
        numbers = [int(n) for n in re.findall(r"\d+", example.answer)]
        assert all(b == 2 * a for a, b in itertools.pairwise(numbers)), example.prompt
    checked = 0
    for example in of_kind(examples, "dates"):
        days = [date.fromisoformat(day) for day in re.findall(r"\d{4}-\d\d-\d\d", example.answer)]
        assert all(b - a == timedelta(1) for a, b in itertools.pairwise(days)), example.prompt
        checked += len(days) > 1
    assert checked > 10
