"""The bundled model that sees: it ships whole, has its recipe's shape, and answers otherwise when it is shown another
picture."""

import random
from pathlib import Path

import pytest

import gesso
from gesso.engine.engine import Engine
from gesso.models.hub import resolve
from gesso.tasks.base import evaluation_set
from gesso.tasks.sight.catalogue import SIGHT
from gesso.train.evaluate import example_request
from gesso.train.recipes import load_recipe

MEGABYTES = 5
BY_NAME = {task.name: task for task in SIGHT}


@pytest.fixture(scope="module")
def engine() -> Engine:
    return gesso.load("sight", device="cpu")


def test_it_is_small_and_of_its_recipes_shape(engine: Engine) -> None:
    folder: Path = resolve("sight")
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) <= MEGABYTES * 10**6
    assert engine.model.config == load_recipe("sight").model
    assert engine.runner.vision is not None


def test_a_picture_takes_the_tokens_that_it_was_trained_on(engine: Engine) -> None:
    (case,) = evaluation_set(BY_NAME["sight-digits"], 1, seed=0)
    (span,) = engine.start(gesso.Request(case.prompt, {"images": list(case.images)})).prompt.spans
    assert span.length == 64


@pytest.mark.parametrize("name", BY_NAME)
def test_it_tells_what_it_sees_and_not_what_it_does_not(engine: Engine, name: str) -> None:
    task, rng = BY_NAME[name], random.Random(0)
    cases = evaluation_set(task, 6, seed=3)
    others = [task.other_picture(case, rng) for case in cases]
    asked = [example_request(case, {"seed": 1}) for case in (*cases, *others)]
    answers = [result.text for result in engine.generate_batch(asked)]
    right = sum(task.grade(case, text) for case, text in zip((*cases, *others), answers, strict=True))
    assert right >= 7, "of 12; the least of any task is 8"
    changed = sum(one != other for one, other in zip(answers[:6], answers[6:], strict=True))
    assert changed >= 4
