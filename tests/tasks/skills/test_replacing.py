"""What is replaced is, and nothing else."""

import random
import re

from gesso.tasks import TASKS
from gesso.tasks.skills.replacing.prose import draw_pairs
from gesso.tasks.skills.replacing.records import ask_cells, ask_settings, ask_within
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
        words, answer = (
            [word for part in text.split() if (word := part.strip(",;.'\"[]-*"))]  # without bullets
            for text in (example.prompt, example.answer)
        )
        for begin in range(len(words) - len(answer) + 1):
            window, behind = words[begin : begin + len(answer)], words[begin + len(answer) :][:1]
            other = [place for place, (old, new) in enumerate(zip(window, answer, strict=True)) if old != new]
            if len(other) != 1 or len(answer) < 3 or behind == answer[-1:]:  # the last: one was removed before it
                continue
            alike = [place for place, word in enumerate(window) if word == window[other[0]]]
            if len(alike) < 2 or words[max(begin - 1, 0) : begin] == answer[:1]:  # the first: likewise
                continue
            asked = " ".join(words[:begin] + words[begin + len(answer) :])
            if re.search(r"\b(gone|delete|remove|drop|erase|strike|cut|without|rid|out)\b", asked, re.IGNORECASE):
                continue
            which = re.search(r"(?<![^\W_])(first|last|second|1st|2nd|final|third)(?![^\W_])", asked, re.IGNORECASE)
            assert which is not None, example.prompt
            assert alike.index(other[0]) == {"first": 0, "1st": 0, "second": 1, "2nd": 1, "third": 2}.get(
                which[0].lower(), len(alike) - 1
            ), example.prompt
            checked += 1
    assert checked > 60


def test_two_things_are_replaced_at_once() -> None:
    for seed in range(300):
        given, answer, pairs = draw_pairs(Slots(random.Random(seed)))
        for old, new in pairs:
            assert old in given
            assert new not in given.split()
            assert answer.count(new) >= len(re.findall(rf"(?<![\w-]){re.escape(old)}(?![\w-])", given))


def test_one_value_of_the_settings_changes() -> None:
    for seed in range(300):
        prompt, answer = ask_settings(Slots(random.Random(seed)))
        lines = re.split(r"\n|, |; ", answer)
        assert sum(line not in prompt for line in lines) <= 1
        assert len(lines) > 1


def test_all_cells_that_say_nothing_are_filled() -> None:
    for seed in range(300):
        prompt, answer = ask_cells(Slots(random.Random(seed)))
        assert len({line for line in answer.split("\n") if line not in prompt.split("\n")}) <= 1
        assert f"\n{answer}\n" not in f"\n{prompt}\n"


def test_parts_of_names_are_replaced() -> None:
    for seed in range(300):
        prompt, answer = ask_within(Slots(random.Random(seed)))
        assert answer not in prompt


def test_digits_are_dropped_or_kept_alone() -> None:
    examples = [e for e in drawn(TASKS["replacing"], 9000) if e.kind in ("drop", "keep")]
    dropped = [e.answer for e in examples if e.kind == "drop" and re.search(r"\b(digits?|numbers)\b", e.prompt)]
    assert len(dropped) > 30
    assert sum(any(map(str.isdigit, answer)) for answer in dropped) < len(dropped) / 3  # one digit of several
    kept = [e.answer for e in examples if e.kind == "keep"]
    assert len(kept) > 10
    assert all(answer.isdigit() or answer.isalpha() for answer in kept)
