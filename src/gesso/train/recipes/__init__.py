"""Finds recipes by name. Each is a Python function that returns a complete `Recipe`."""

import inspect
from collections.abc import Callable
from functools import partial

from gesso.errors import OptionError
from gesso.train.recipe import Recipe
from gesso.train.recipes.mini import mini, mini_2, mini_3, mini_4, mini_5, mini_6, mini_7, mini_8, mini_distill
from gesso.train.recipes.sight import sight, sight_2
from gesso.train.recipes.skill_runs import ABOUT, RUNS, later_run
from gesso.train.recipes.skills import skills, skills_gpu
from gesso.train.recipes.sql import sql
from gesso.train.recipes.sudoku import sudoku, sudoku_2, sudoku_3, sudoku_4, sudoku_5, sudoku_6, sudoku_distill

RECIPES: dict[str, Callable[[], Recipe]] = {
    "mini": mini,
    "mini-2": mini_2,
    "mini-3": mini_3,
    "mini-4": mini_4,
    "mini-5": mini_5,
    "mini-6": mini_6,
    "mini-7": mini_7,
    "mini-8": mini_8,
    "mini-distill": mini_distill,
    "sudoku": sudoku,
    "sudoku-2": sudoku_2,
    "sudoku-3": sudoku_3,
    "sudoku-4": sudoku_4,
    "sudoku-5": sudoku_5,
    "sudoku-6": sudoku_6,
    "sudoku-distill": sudoku_distill,
    "sql": sql,
    "sight": sight,
    "sight-2": sight_2,
    "skills": skills,
    "skills-gpu": skills_gpu,
    **{name: partial(later_run, run) for name, run in RUNS.items()},
}
LATER = frozenset(name for name, run in RUNS.items() if run.after is not None)
"""Those that go on from the folder of another run, not from a bundled model or from random weights."""


def about(name: str) -> str:
    """Returns what a list of recipes says about the one called `name`."""
    return ABOUT.get(name) or " ".join((inspect.getdoc(RECIPES[name]) or "").split())


def load_recipe(name: str) -> Recipe:
    """Returns the recipe called `name`.

    Raises:
        OptionError: there is none.
    """
    if name not in RECIPES:
        raise OptionError(f"no recipe {name!r}; known: {', '.join(sorted(RECIPES))}", option="recipe")
    return RECIPES[name]()
