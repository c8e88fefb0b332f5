"""Requests that have nothing to do with the turns before."""

import random

from gesso.tasks import TASKS
from gesso.tasks.skills.catalogue import SKILLS


def test_the_request_is_whole_by_itself() -> None:
    task, rng = TASKS["switching"], random.Random(1)
    asked = set[str]()
    for index in range(200):
        example = task.sample_evaluation(rng, index)
        assert len(example.history) in range(2, 11, 2)
        assert not example.tools
        assert example.call is None
        assert task.grade(example, example.answer)
        assert not task.grade(example, "nothing of the kind")
        asked.add(task.group(example).partition(",")[0])
    assert asked == {skill.name for skill in SKILLS} - {"dialogues", "calls", "results", "filling", "switching"}


def test_an_answer_is_graded_as_its_skill_does() -> None:
    """JSON by its value, labels in any case."""
    task, rng = TASKS["switching"], random.Random(2)
    seen = set[str]()
    while seen < {"extraction", "sentiment"}:
        example = task.sample(rng)
        skill = task.group(example)
        if skill == "extraction" and example.answer.startswith("{"):
            assert task.grade(example, example.answer.replace("{", "{ "))
        elif skill == "sentiment" and example.answer == "negative":
            assert task.grade(example, "Negative.")
        else:
            continue
        seen.add(skill)


def test_what_was_said_before_is_bounded() -> None:
    task, rng = TASKS["switching"], random.Random(3)
    for _ in range(300):
        history = task.sample(rng).history
        assert len(history) == 2 or sum(map(len, history)) <= 600
