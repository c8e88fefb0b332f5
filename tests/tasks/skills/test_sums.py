"""Sums are worth what Python says."""

import re
from decimal import Decimal

from gesso.tasks import TASKS, Example
from tasks.drawing import drawn, of_kind


def test_differences_of_things_are_not_below_zero() -> None:
    below = [e for e in drawn(TASKS["sums"], 6000) if e.answer.startswith("-") and "words" in (e.kind or "")]
    assert len(below) > 2
    things = re.compile(r"eggs|cookies|born|difference between|distance|guests", re.IGNORECASE)
    assert not any(things.search(e.prompt) and "minus" not in e.prompt and "ubtract" not in e.prompt for e in below)


def test_expressions_are_worth_what_python_says() -> None:
    checked = 0
    for example in of_kind(drawn(TASKS["sums"], 6000), "longer"):
        expressions = re.findall(r"[\d(][\d ()+*-]*[\d)]", example.prompt)
        longest = max(expressions, key=len)
        if longest.count("(") == longest.count(")"):
            assert str(eval(longest)) == example.answer, example.prompt
            checked += 1
    assert checked > 65


def test_sums_of_several_numbers() -> None:
    for example in of_kind(drawn(TASKS["sums"], 4000), "several"):
        numbers = [int(number) for number in re.findall(r"\d+", example.prompt)]
        # Items of lists may be numbered by the request itself; all that is added is there.
        assert sum(numbers) >= int(example.answer)


def test_whole_expressions_are_worth_what_python_says() -> None:
    checked = 0
    for example in of_kind(drawn(TASKS["sums"], 6000), "expression"):
        longest = max(re.findall("[\\d(][\\d ()+*x\u00d7-]*[\\d)]", example.prompt), key=len)
        if longest.count("(") == longest.count(")"):
            assert str(eval(re.sub("[x\u00d7]", "*", longest))) == example.answer, example.prompt
            checked += 1
    assert checked > 150


def _found(kind: str, count: int = 5000) -> list[Example]:
    """Draws examples of exactly one kind."""
    return [e for e in drawn(TASKS["sums"], count) if (e.kind or "").removesuffix(", reworded") == kind]


def test_quotients_are_exact() -> None:
    checked = 0
    for example in _found("divided"):
        numbers = re.findall(r"\d+", example.prompt)
        if re.search(r"\d ?[/\u00f7] ?\d|divided by|[Dd]ivide \d", example.prompt) and len(numbers) == 2:
            assert int(numbers[0]) == int(numbers[1]) * int(example.answer), example.prompt
            checked += 1
    assert checked > 15


def test_averages_are_whole() -> None:
    checked = 0
    for example in _found("average"):
        found = re.search(r"\[[\d, ]+\]|(?<=avg\()[\d, ]+", example.prompt)
        if found:
            numbers = [int(n) for n in re.findall(r"\d+", found[0])]
            assert sum(numbers) == int(example.answer) * len(numbers), example.prompt
            checked += 1
    assert checked > 1


def test_prices_have_two_decimals_and_others_as_many_as_they_need() -> None:
    assert all(re.fullmatch(r"\d+\.\d\d", example.answer) for example in _found("money"))
    for example in _found("decimals"):
        assert re.fullmatch(r"\d+(\.\d*[1-9])?", example.answer), example.prompt
        found = re.search(r"\d+\.\d+ [+-] \d+\.\d+", example.prompt)
        if found:
            left, sign, right = found[0].split(" ")
            value = Decimal(left) + Decimal(right) * (1 if sign == "+" else -1)
            assert value == Decimal(example.answer), example.prompt


def test_percents_are_whole() -> None:
    checked = 0
    for example in _found("percent"):
        found = re.search(r"(\d+)(?:%| percent| per cent) of (\d+)", example.prompt)
        if found and not re.search(r"\boff\b|\bnot\b|\bleft\b|\bremain", example.prompt):
            assert int(found[1]) * int(found[2]) == int(example.answer) * 100, example.prompt
            checked += 1
    assert checked > 2


def test_sums_of_columns() -> None:
    checked = 0
    for kind in ("column", "labelled"):
        for example in _found(kind):
            rows = [re.findall(r"\b\d+\b", line) for line in example.prompt.splitlines()]
            if max(map(len, rows)) == 1:
                assert sum(int(row[0]) for row in rows if row) == int(example.answer), example.prompt
                checked += 1
    assert checked > 90
