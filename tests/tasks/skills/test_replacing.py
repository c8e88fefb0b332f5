"""What is replaced is, and nothing else."""

import random
import re

from gesso.tasks import TASKS
from gesso.tasks.skills.replacing.texts import draw_replacement
from gesso.tasks.skills.slots import Slots
from tasks.drawing import drawn, of_kind


def test_texts_have_what_is_replaced_and_nothing_else_changes() -> None:
    for seed in range(400):
        found = draw_replacement(Slots(random.Random(seed)))
        whole = re.compile(rf"(?<![\w-]){re.escape(found.old)}(?![\w-])", re.IGNORECASE)
        assert whole.search(found.given)
        assert not whole.search(found.answer)
        assert whole.sub("", found.given).split() == re.sub(
            rf"(?<![\w-]){re.escape(found.new)}(?![\w-])", "", found.answer, flags=re.IGNORECASE
        ).split()  # fmt: skip


def test_one_of_several_is_replaced_alone() -> None:
    """Where the text stands in the prompt but for one word, which is the one that the request tells."""
    checked = 0
    for example in of_kind(drawn(TASKS["replacing"], 4000), "one"):
        words, answer = ([word.strip(",;.'\"[]") for word in text.split()] for text in (example.prompt, example.answer))
        for begin in range(len(words) - len(answer) + 1):
            window, behind = words[begin : begin + len(answer)], words[begin + len(answer) :][:1]
            other = [place for place, (old, new) in enumerate(zip(window, answer, strict=True)) if old != new]
            if len(other) != 1 or len(answer) < 3 or behind == answer[-1:]:  # the last: one was removed before it
                continue
            alike = [place for place, word in enumerate(window) if word == window[other[0]]]
            which = re.search(r"\b(first|last|second|1st)\b", example.prompt, re.IGNORECASE)
            assert which is not None, example.prompt
            assert other[0] == {"last": alike[-1], "second": alike[1]}.get(which[0].lower(), alike[0]), example.prompt
            checked += 1
    assert checked > 60


def test_digits_are_dropped_or_kept_alone() -> None:
    examples = [e for e in drawn(TASKS["replacing"], 9000) if e.kind in ("drop", "keep")]
    dropped = [e.answer for e in examples if e.kind == "drop" and re.search(r"\b(digits?|numbers)\b", e.prompt)]
    assert len(dropped) > 30
    assert sum(any(map(str.isdigit, answer)) for answer in dropped) < len(dropped) / 3  # one digit of several
    kept = [e.answer for e in examples if e.kind == "keep"]
    assert len(kept) > 10
    assert all(answer.isdigit() or answer.isalpha() for answer in kept)
