"""The bundled model of the skills: it ships whole, has its recipe's shape, and answers in words it never saw."""

from pathlib import Path

import pytest

import gesso
from gesso.engine.engine import Engine
from gesso.models.card import read_card
from gesso.models.hub import resolve
from gesso.tasks.base import evaluation_set
from gesso.tasks.registry import TASKS, default_tasks
from gesso.text.graded import graded_text
from gesso.train.evaluate import example_request
from gesso.train.recipes import load_recipe

MEGABYTES = 22


@pytest.fixture(scope="module")
def engine() -> Engine:
    return gesso.load("skills", device="cpu")


def test_it_is_small_and_of_its_recipes_shape(engine: Engine) -> None:
    folder: Path = resolve("skills")
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) <= MEGABYTES * 10**6
    assert engine.model.config == load_recipe("skills").model


def test_its_card_has_every_skill_and_the_command_that_measures_it() -> None:
    card = read_card(resolve("skills"))
    assert card is not None
    assert {skill.name for skill in card.skills} == set(default_tasks("skills"))
    for skill in card.skills:
        assert f"--task {skill.name} " in skill.command


@pytest.mark.parametrize(("name", "least"), [("calls", 6), ("casing", 6), ("functions", 6), ("abstention", 5)])
def test_it_answers_in_words_that_it_never_saw(engine: Engine, name: str, least: int) -> None:
    cases = evaluation_set(TASKS[name], 8, seed=5)
    results = engine.generate_batch([example_request(case, {"seed": i}) for i, case in enumerate(cases)])
    right = [TASKS[name].grade(case, graded_text(result)) for case, result in zip(cases, results, strict=True)]
    assert sum(right) >= least
