"""Sums are worth what Python says."""

import random
import re

import pytest

from gesso.tasks import TASKS
from gesso.tasks.skills.sums.numbers import as_said
from gesso.tasks.skills.sums.skill import spell
from tasks.drawing import drawn, of_kind


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, "zero"),
        (14, "fourteen"),
        (40, "forty"),
        (87, "eighty-seven"),
        (300, "three hundred"),
        (999, "nine hundred ninety-nine"),
    ],
)
def test_numbers_in_words(number: int, words: str) -> None:
    assert spell(number) == words


def test_differences_of_things_are_not_below_zero() -> None:
    below = [e for e in drawn(TASKS["sums"], 6000) if e.answer.startswith("-") and "words" in (e.kind or "")]
    assert len(below) > 20
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
    assert checked > 100


def test_sums_of_several_numbers() -> None:
    for example in of_kind(drawn(TASKS["sums"], 4000), "several"):
        numbers = [int(number) for number in re.findall(r"\d+", example.prompt)]
        # Items of lists may be numbered by the request itself; all that is added is there.
        assert sum(numbers) >= int(example.answer)
    assert spell(2006) == "two thousand and six"
    assert spell(94_317) == "ninety-four thousand three hundred seventeen"


def test_numbers_are_said_in_several_ways() -> None:
    rng = random.Random(5)
    said = {as_said(spell(number), rng) for number in (105, 1345, 100_200) for _ in range(200)}
    assert {"one hundred five", "a hundred and five", "a hundred five", "one hundred and five"} <= said
    assert {"one thousand three hundred and forty five", "one hundred thousand two hundred"} <= said
    assert not any("and thousand" in text or "and and" in text for text in said)


def test_whole_expressions_are_worth_what_python_says() -> None:
    checked = 0
    for example in of_kind(drawn(TASKS["sums"], 6000), "expression"):
        longest = max(re.findall("[\\d(][\\d ()+*x\u00d7-]*[\\d)]", example.prompt), key=len)
        if longest.count("(") == longest.count(")"):
            assert str(eval(re.sub("[x\u00d7]", "*", longest))) == example.answer, example.prompt
            checked += 1
    assert checked > 150
