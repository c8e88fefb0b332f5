"""Requests under a system message, and behind turns that have nothing to do with them."""

import random

from gesso.tasks import TASKS
from gesso.tasks.base import messages_of
from gesso.tasks.skills.catalogue import SKILLS


def test_the_request_is_whole_by_itself() -> None:
    task, rng = TASKS["contexts"], random.Random(1)
    asked, kinds = set[str](), set[str]()
    for index in range(200):
        example = task.sample_evaluation(rng, index)
        kind, skill, _ = example.kind.split("/", 2)
        assert bool(example.system) == (kind != "turns")
        assert example.history or kind == "system"
        assert len(example.history) in range(0, 17, 2)
        assert messages_of(example)[0]["role"] == ("system" if example.system else "user")
        assert not example.tools
        assert example.call is None
        assert task.grade(example, example.answer)
        assert not task.grade(example, "nothing of the kind")
        asked.add(skill)
        kinds.add(task.group(example))
    assert kinds == {f"{kind}{mark}" for kind in ("turns", "system", "both") for mark in ("", ", reworded")}
    assert asked == {skill.name for skill in SKILLS} - {"calls", "results", "filling", "contexts"}


def test_an_answer_is_graded_as_its_skill_does() -> None:
    """JSON by its value, labels in any case."""
    task, rng = TASKS["contexts"], random.Random(2)
    seen = set[str]()
    while seen < {"extraction", "sentiment"}:
        example = task.sample(rng)
        skill = example.kind.split("/")[1]
        if skill == "extraction" and example.answer.startswith("{"):
            assert task.grade(example, example.answer.replace("{", "{ "))
        elif skill == "sentiment" and example.answer == "negative":
            assert task.grade(example, "Negative.")
        else:
            continue
        seen.add(skill)


def test_what_was_said_before_is_bounded() -> None:
    task, rng = TASKS["contexts"], random.Random(3)
    for _ in range(300):
        example = task.sample(rng)
        assert len(example.history) <= 2 or sum(map(len, example.history)) <= 600 or "/dialogues/" in example.kind


def test_a_conversation_is_asked_from_its_first_turn_on() -> None:
    """Whatever was said before, `Repeat: ...` is about the list that it names."""
    task, rng = TASKS["contexts"], random.Random(4)
    first, later = 0, 0
    while not (first and later):
        example = task.sample(rng)
        _, skill, kind = example.kind.split("/", 2)
        if skill == "dialogues" and not example.history:
            first += 1
            assert all(word in example.prompt for word in example.answer.split(", "))
        later += skill == "dialogues" and kind.startswith("1 before") and len(example.history) > 2
