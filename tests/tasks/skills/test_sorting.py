"""Sorted lists are what Python sorts."""

import ast
import re
from collections.abc import Callable, Iterable
from decimal import Decimal
from itertools import pairwise

from gesso.tasks import TASKS
from tasks.drawing import drawn, of_kind


def test_sorted_lists_are_numbered_anew() -> None:
    numbered = 0
    for example in drawn(TASKS["sorting"], 3000):
        lines = example.answer.split("\n")
        marks = [re.match(r"(\d+)[.)] (.+)", line) for line in lines]
        if len(lines) > 1 and all(marks):
            assert [int(mark[1]) for mark in marks if mark] == list(range(1, len(lines) + 1))
            assert all(mark[2] in example.prompt for mark in marks if mark)
            numbered += 1
    assert numbered > 10


def test_numbers_of_unlike_forms_are_sorted_by_value() -> None:
    checked = 0
    for example in drawn(TASKS["sorting"], 3000):
        items = example.answer.split("\n" if "\n" in example.answer else ", ")
        if example.kind == "mixed numbers" and all(re.fullmatch(r"-?\d+(\.\d+)?", item) for item in items):
            values = [Decimal(item) for item in items]
            assert values in (sorted(values), sorted(values, reverse=True)), example
            checked += 1
    assert checked > 40


def test_lists_in_code_are_what_python_says() -> None:
    operations: dict[str, Callable[[list[object]], Iterable[object]]] = {
        "sorting": sorted, "duplicates": dict.fromkeys, "reversing": reversed,
    }  # fmt: skip
    for name, operation in operations.items():
        for example in of_kind(drawn(TASKS[name], 3000), "code"):
            given = ast.literal_eval(re.findall(r"\[[^\[\]:]+\]", example.prompt)[0])
            wanted = list(operation(given))
            asked = re.sub(r"\[.*?\]", "", example.prompt.lower())
            if name == "sorting" and re.search("reverse=true|descending", asked):
                wanted.reverse()
            assert ast.literal_eval(example.answer) == wanted, example


def test_words_by_length_are_of_clearly_unlike_lengths() -> None:
    for example in of_kind(drawn(TASKS["sorting"], 6000), "length"):
        lengths = [len(word) for word in re.findall(r"[^\W\d_]{2,}", example.answer) if word.lower() != "and"]
        assert lengths in (sorted(lengths), sorted(lengths, reverse=True)), example
        assert all(abs(first - second) >= 2 for first, second in pairwise(lengths)), example


def test_sorting_keeps_what_stands_there_twice() -> None:
    for example in of_kind(drawn(TASKS["sorting"], 3000), "repeats"):
        items = re.findall(r"\w+", example.answer)
        for item in items:
            assert len(re.findall(rf"\b{item}\b", example.prompt)) >= items.count(item), example


def test_dates_are_sorted_by_time() -> None:
    checked = 0
    for example in drawn(TASKS["sorting"], 6000):
        days = re.findall(r"\d{4}-\d\d-\d\d", example.answer)
        if example.kind == "dates" and days:
            assert days in (sorted(days), sorted(days, reverse=True)), example
            assert sorted(days) == sorted(re.findall(r"\d{4}-\d\d-\d\d", example.prompt)), example
            checked += 1
    assert checked > 75
