"""Numbers in words are those that people write."""

import random

import pytest

from gesso.tasks.skills.numerals import as_said, spell


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, "zero"),
        (14, "fourteen"),
        (40, "forty"),
        (87, "eighty-seven"),
        (300, "three hundred"),
        (999, "nine hundred ninety-nine"),
        (2006, "two thousand and six"),
        (94_317, "ninety-four thousand three hundred seventeen"),
    ],
)
def test_numbers_in_words(number: int, words: str) -> None:
    assert spell(number) == words


def test_numbers_are_said_in_several_ways() -> None:
    rng = random.Random(5)
    said = {as_said(spell(number), rng) for number in (105, 1345, 100_200) for _ in range(200)}
    assert {"one hundred five", "a hundred and five", "a hundred five", "one hundred and five"} <= said
    assert {"one thousand three hundred and forty five", "one hundred thousand two hundred"} <= said
    assert not any("and thousand" in text or "and and" in text for text in said)
