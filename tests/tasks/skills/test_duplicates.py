"""What is repeated, and what goes."""

import itertools
import re

from gesso.tasks import TASKS
from tasks.drawing import drawn, of_kind


def test_only_doubled_words_go() -> None:
    for example in of_kind(drawn(TASKS["duplicates"], 3000), "doubled"):
        prompt, words = example.prompt.lower(), example.answer.lower().split()
        assert all(one != two for one, two in itertools.pairwise(words))
        assert all(word in prompt for word in words)
        assert len(prompt.split()) > len(words)


def test_what_is_repeated_stands_there_again() -> None:
    for example in of_kind(drawn(TASKS["duplicates"], 3000), "several"):
        for item in re.findall(r"[a-z]{3,}", example.answer):
            assert example.prompt.count(item) > 1, example
