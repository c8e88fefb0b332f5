"""Labels and marks of several texts are those of the request."""

import re

import pytest

from gesso.tasks import TASKS
from tasks.drawing import drawn, of_kind


@pytest.mark.parametrize("name", ["sentiment", "topics"])
def test_each_of_several_texts_has_a_label_of_the_request(name: str) -> None:
    lines = 0
    for example in of_kind(drawn(TASKS[name], 3000), "several"):
        answers = example.answer.split("\n")
        for answer in answers if len(answers) > 1 else ():
            mark = re.match(r"(?:[-*] |[(#]?\w[.):]? (?:- )?)?", answer)
            assert mark is not None
            assert answer[mark.end() :].lower() in example.prompt.lower(), example
            lines += 1
    assert lines > 300


@pytest.mark.parametrize("name", ["sentiment", "topics"])
def test_the_text_that_is_asked_for_is_one_of_those_given(name: str) -> None:
    for example in of_kind(drawn(TASKS[name], 3000), "which"):
        assert example.answer in example.prompt
        if len(example.answer) < 4:
            assert re.search(rf"^{re.escape(example.answer)}[.):]? (?:- )?", example.prompt, re.MULTILINE), example
