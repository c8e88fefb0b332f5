"""The bundled Sudoku model: it ships whole, has its recipe's shape, and solves what it is said to solve."""

from pathlib import Path

import pytest

import gesso
from gesso.engine.engine import Engine
from gesso.models.hub import resolve
from gesso.tasks.base import evaluation_set
from gesso.tasks.sudoku import Sudoku
from gesso.train.recipes import load_recipe

MEGABYTES = 12


@pytest.fixture(scope="module")
def engine() -> Engine:
    return gesso.load("sudoku", device="cpu")


def test_it_is_small_and_of_its_recipes_shape(engine: Engine) -> None:
    folder: Path = resolve("sudoku")
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) <= MEGABYTES * 10**6
    assert engine.model.config == load_recipe("sudoku").model


def test_it_writes_grids_that_keep_the_clues_and_solves_some(engine: Engine) -> None:
    task = Sudoku()
    cases = [case for case in evaluation_set(task, 24, seed=1) if task.group(case) == "easy"]
    results = engine.generate_batch([gesso.Request(case.prompt, {"seed": i}) for i, case in enumerate(cases)])
    right = sum(task.grade(case, result.text) for case, result in zip(cases, results, strict=True))
    kept = [task.counts(case, result.text)["clues kept"] for case, result in zip(cases, results, strict=True)]
    assert all(count == total for count, total in kept)
    assert right >= len(cases) // 4
    assert all(sum(result.denoising_steps) <= engine.defaults.max_denoising_steps for result in results)
