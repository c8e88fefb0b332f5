"""What is repeated, and what goes."""

import itertools
import random
import re

from gesso.tasks import TASKS
from gesso.tasks.skills.duplicates.letters import ask_letters
from gesso.tasks.skills.slots import Slots
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


def test_capitals_make_another_word_where_the_case_matters() -> None:
    for example in of_kind(drawn(TASKS["duplicates"], 4000), "exact"):
        words = [word for word in re.findall(r"[A-Za-z]+", example.answer) if word != "and"]
        assert len(set(words)) == len(words), example
        assert len({word.lower() for word in words}) < len(words), example


def test_letters_that_repeat_stand_there_again() -> None:
    checked = 0
    for seed in range(200):
        prompt, answer = ask_letters(Slots(random.Random(seed)))
        if ", " in answer:
            checked += 1
            words = re.findall(r"[a-z]+", prompt.lower())
            assert any(all(word.count(letter) > 1 for letter in answer.split(", ")) for word in words), prompt
    assert checked > 20


def test_the_last_of_each_stays() -> None:
    for example in of_kind(drawn(TASKS["duplicates"], 4000), "last"):
        words = [word for word in re.findall(r"\w+(?:-\w+)*", example.answer) if word != "and"]
        assert len(set(words)) == len(words), example
        assert all(word in example.prompt for word in words), example
