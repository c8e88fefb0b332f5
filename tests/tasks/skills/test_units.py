"""Quantities are worth the same in both units, and answers are taken by all their names."""

import re
from decimal import Decimal

from gesso.tasks import TASKS, Example
from gesso.tasks.skills.units.skill import Units
from tasks.drawing import drawn, of_kind


def test_units_take_the_number_alone() -> None:
    task = Units()
    example = Example("units", "", "0.25 km")
    assert task.grade(example, "0.25")
    assert task.grade(example, "0.25 km.")
    for text in ("0.2", "25 km", "0.25 m"):
        assert not task.grade(example, text)


def test_units_are_taken_by_all_their_names() -> None:
    task = Units()
    for answer, others in {
        "35000 m": ("35000m", "35,000 m", "35000 metres", "35000 meter."),
        "1 feet": ("1 foot",),
        "0.5 h": ("0.5 hours", "0.5h"),
    }.items():
        assert all(task.grade(Example("units", "", answer), text) for text in others)
    for text in ("35000 min", "35000 mm", "3,5000 m", "35 000 m", "35000 m m"):
        assert not task.grade(Example("units", "", "35000 m"), text)


def test_quantities_are_worth_the_same_in_both_units() -> None:
    metres = {"mm": 1, "cm": 10, "m": 1000, "km": 10**6}
    checked = 0
    for example in of_kind(drawn(TASKS["units"], 4000), "decimal"):
        number, _, unit = example.answer.partition(" ")
        given = re.findall(r"(?<![\w.,/])(\d+(?:\.\d+)?) ?(mm|cm|km|m)\b", example.prompt)
        if unit in metres and len(given) == 1 and given[0][1] != unit:
            value, old = given[0]
            assert Decimal(value) * metres[old] == Decimal(number) * metres[unit], example.prompt
            checked += 1
    assert checked > 75


def test_quantities_in_two_units_are_read_with_and_or_without() -> None:
    task = Units()
    example = Example("units", "", "2 hours and 15 minutes")
    for text in ("2 hours and 15 minutes", "2 hours 15 minutes.", "2 hours, 15 minutes"):
        assert task.grade(example, text)
    for text in ("2 hours", "2 hours and 16 minutes", "15 minutes and 2 hours", "2.25 hours"):
        assert not task.grade(example, text)
    assert task.grade(Example("units", "", "135"), "135")
    assert not task.grade(Example("units", "", "135"), "135 m")


def test_minutes_and_hours_are_worth_the_same() -> None:
    whole = 0
    for example in of_kind(drawn(TASKS["units"], 8000), "other"):
        given = re.findall(r"(?<![\w.,/])(\d+) ?(h|hours?|min|minutes?)\b", example.prompt)
        told = re.findall(r"(\d+(?:\.\d+)?) (h|hours?|min|minutes?)\b", example.answer)
        unit_of = {"h": 60, "m": 1}
        if len(given) == len(re.findall(r"\d+", example.prompt)) > 0 and told and " 2 " not in example.prompt:
            minutes = [sum(Decimal(n) * unit_of[unit[0]] for n, unit in found) for found in (given, told)]
            if len(told) == len(re.findall(r"\d+(?:\.\d+)?", example.answer)):
                assert minutes[0] == minutes[1], example
                whole += 1
    assert whole > 100


def test_compared_quantities_are_the_larger_and_the_smaller() -> None:
    metres = {"mm": 1, "cm": 10, "m": 1000, "km": 10**6}
    checked = 0
    for example in of_kind(drawn(TASKS["units"], 8000), "compared"):
        found = list(re.finditer(r"(?<![\w.,/])(\d+(?:\.\d+)?) (mm|cm|km|m)\b", example.prompt))
        given = [place.groups() for place in found]
        word = re.search(r"\b(more|longer|less|shorter)\b", example.prompt)
        if len(given) == 2 and word:
            more = word[0] in ("more", "longer")
            between = found[0].end() < word.start() < found[1].start()
            if example.answer in ("yes", "no") and not between:  # the second may be what is asked about
                continue
            first, second = (Decimal(number) * metres[unit] for number, unit in given)
            if example.answer in ("yes", "no"):
                assert example.answer == ("yes" if (first > second) == more else "no"), example
            else:
                assert example.answer == " ".join(given[0] if (first > second) == more else given[1]), example
            checked += 1
    assert checked > 5


def test_lists_of_quantities_are_worth_the_same() -> None:
    metres = {"mm": 1, "cm": 10, "m": 1000, "km": 10**6}
    lists = 0
    for example in of_kind(drawn(TASKS["units"], 8000), "several"):
        given = re.findall(r"(?<![\w.,/])(\d+(?:\.\d+)?) (mm|cm|km|m)\b", example.prompt)
        told = re.findall(r"(\d+(?:\.\d+)?) (mm|cm|km|m)\b", example.answer)
        if len(given) > 1 and len(given) == len(told):
            values = [[Decimal(number) * metres[unit] for number, unit in found] for found in (given, told)]
            assert values[0] == values[1], example
            lists += 1
    assert lists > 5
