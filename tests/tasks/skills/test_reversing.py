"""Letters are reversed where their word stands."""

import re
from itertools import pairwise

from gesso.tasks import TASKS
from tasks.drawing import drawn, of_kind


def test_letters_are_reversed_where_their_word_stands() -> None:
    for example in of_kind(drawn(TASKS["reversing"], 3000), "letters of each"):
        assert all(word[::-1] in example.prompt for word in re.findall(r"\w+", example.answer)), example
    for kind in ("letters of codes", "letters of phrases", "letters in code"):
        assert all(example.answer[::-1] in example.prompt for example in of_kind(drawn(TASKS["reversing"], 2000), kind))


def test_rows_of_numbers_count_down() -> None:
    checked = 0
    for example in of_kind(drawn(TASKS["reversing"], 3000), "runs"):
        numbers = [int(number) for number in re.findall(r"\d+", example.answer)]
        steps = {second - first for first, second in pairwise(numbers)}
        if numbers:
            assert len(steps) == 1, example
            assert max(steps) < 0, example
            checked += 1
    assert checked > 50


def test_answers_leave_fences_out() -> None:
    for name in ("reversing", "sorting"):
        fenced = [example for example in drawn(TASKS[name], 6000) if "```" in example.prompt]
        assert len(fenced) > 30
        assert not any("```" in example.answer for example in fenced)
