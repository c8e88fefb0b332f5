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
        found = re.search(r'\{\s*".*\}', example.prompt, re.DOTALL)
        assert found is not None, example.prompt
        given = json.loads(found[0])
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


def test_styles_that_are_described_are_those() -> None:
    told = {
        "underscores between the words, all lowercase": r"[^\W_A-Z]+(_[^\W_A-Z]+)*",
        "lowercase words joined by dashes": r"[^\W_A-Z]+(-[^\W_A-Z]+)*",
        "uppercase words joined by underscores": r"[^\W_a-z]+(_[^\W_a-z]+)*",
        "snake it": r"[^\W_A-Z]+(_[^\W_A-Z]+)*",
    }
    checked = 0
    for example in of_kind(drawn(TASKS["casing"], 12000), "style"):
        for words, form in told.items():
            if words in example.prompt and "upper snake" not in example.prompt and "screaming" not in example.prompt:
                assert re.fullmatch(form, example.answer), example
                checked += 1
    assert checked > 3


def test_names_and_titles_have_a_capital_for_each_word() -> None:
    examples = drawn(TASKS["casing"], 6000)
    for example in of_kind(examples, "names"):
        assert example.answer.lower() in example.prompt.lower()
        assert all(word == word.capitalize() for word in example.answer.replace(",", "").split()), example
    for example in of_kind(examples, "small letter"):
        assert example.answer[0].islower()
        assert example.answer[0].upper() + example.answer[1:] in example.prompt
