"""Letters are reversed where their word stands."""

import re

from gesso.tasks import TASKS
from tasks.drawing import drawn, of_kind


def test_letters_are_reversed_where_their_word_stands() -> None:
    for example in of_kind(drawn(TASKS["reversing"], 3000), "letters of each"):
        assert all(word[::-1] in example.prompt for word in re.findall(r"\w+", example.answer)), example
    for kind in ("letters of codes", "letters of phrases", "letters in code"):
        assert all(example.answer[::-1] in example.prompt for example in of_kind(drawn(TASKS["reversing"], 2000), kind))
