"""Styles and capitals are those that are asked for, and the rest stays."""

import json
import re

from gesso.tasks import TASKS
from tasks.drawing import drawn, of_kind


def test_styles_of_lists_and_keys_leave_the_rest() -> None:
    examples = drawn(TASKS["casing"], 4000)
    checked = 0
    for example in of_kind(examples, "keys"):
        if not example.answer.startswith("{"):
            continue
        given = json.loads(example.prompt[example.prompt.index("{") : example.prompt.rindex("}") + 1])
        turned = json.loads(example.answer)
        assert list(turned.values()) == list(given.values())
        plain = [[re.sub(r"[-_.]", "", key).lower() for key in keys] for keys in (given, turned)]
        assert plain[0] == plain[1]
        checked += 1
    assert checked > 20
    for example in of_kind(examples, "styles"):
        plain_answer = re.sub(r"[-_. ]", "", example.answer.lower())
        assert plain_answer in re.sub(r"[-_. ]", "", example.prompt.lower())


def test_one_word_alone_gets_capitals() -> None:
    for example in of_kind(drawn(TASKS["casing"], 4000), "one word"):
        loud = [word for word in example.answer.split(" ") if word.rstrip(".!") == word.rstrip(".!").upper()]
        assert loud, example.answer
