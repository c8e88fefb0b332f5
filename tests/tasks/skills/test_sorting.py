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
            if name == "sorting" and re.search("reverse=true|descending", example.prompt.lower()):
                wanted.reverse()
            assert ast.literal_eval(example.answer) == wanted, example


def test_words_of_one_length_keep_their_order() -> None:
    tied = 0
    for example in of_kind(drawn(TASKS["sorting"], 6000), "length"):
        words = [word for word in re.findall(r"[^\W\d_]{3,}", example.answer) if word.lower() != "and"]
        lengths = [len(word) for word in words]
        assert lengths in (sorted(lengths), sorted(lengths, reverse=True)), example
        for first, second in pairwise(words):
            if len(first) == len(second):
                assert example.prompt.rindex(first) < example.prompt.rindex(second), example
                tied += 1
    assert tied > 10


def test_sorting_keeps_what_stands_there_twice() -> None:
    for example in of_kind(drawn(TASKS["sorting"], 3000), "repeats"):
        items = re.findall(r"\w+", example.answer)
        for item in items:
            assert len(re.findall(rf"\b{item}\b", example.prompt)) >= items.count(item), example


def test_dates_and_dated_events_are_sorted_by_time() -> None:
    checked = 0
    for example in drawn(TASKS["sorting"], 6000):
        days = re.findall(r"\d{4}-\d\d-\d\d", example.answer)
        if example.kind in ("dates", "events") and days:
            assert days in (sorted(days), sorted(days, reverse=True)), example
            assert sorted(days) == sorted(re.findall(r"\d{4}-\d\d-\d\d", example.prompt)), example
            checked += 1
    assert checked > 100


def test_names_with_an_order_of_their_own_are_sorted_by_it() -> None:
    week = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
    checked = 0
    for example in of_kind(drawn(TASKS["sorting"], 6000), "known orders"):
        days = [week.index(name) for name in re.findall(r"\w+", example.answer.lower()) if name in week]
        assert days == sorted(days), example
        checked += bool(days)
    assert checked > 10
