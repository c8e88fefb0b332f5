"""Topics to choose from are far enough apart, and the answer is one of them."""

import random
from itertools import combinations

from gesso.tasks import TASKS
from gesso.tasks.skills.topics import words
from tasks.drawing import drawn


def test_every_topic_that_is_near_another_or_of_a_desk_exists() -> None:
    known = {topic.names[0] for topic in words.topics()}
    for line in (*words.NEAR_LINES, ", ".join(words.DESKS)):
        assert set(line.split(", ")) <= known, line


def test_topics_to_choose_from_are_not_near_each_other() -> None:
    rng = random.Random(3)
    for at_desk in (False, True):
        for _ in range(300):
            names = [topic.names[0] for topic in words.apart(rng, 4, at_desk=at_desk)]
            for pair in combinations(names, 2):
                assert not any(set(pair) <= set(line.split(", ")) for line in words.NEAR_LINES)


def test_the_answer_stands_in_the_request() -> None:
    for example in drawn(TASKS["topics"], 2000):
        if example.kind.split(",")[0] in ("2", "3", "4", "inside", "codes"):
            assert example.answer in example.prompt, example
