"""Finds recipes by name. Each is a Python function that returns a complete `Recipe`."""

from collections.abc import Callable

from gesso.errors import OptionError
from gesso.train.recipe import Recipe
from gesso.train.recipes.mini import mini, mini_2, mini_3, mini_4, mini_5, mini_6, mini_7, mini_8, mini_distill
from gesso.train.recipes.sight import sight, sight_2
from gesso.train.recipes.skills import (
    skills,
    skills_2,
    skills_3,
    skills_4,
    skills_5,
    skills_6,
    skills_7,
    skills_8,
    skills_9,
    skills_10,
    skills_11,
    skills_12,
    skills_13,
    skills_14,
    skills_15,
    skills_16,
    skills_17,
    skills_18,
    skills_19,
    skills_20,
    skills_21,
    skills_22,
    skills_gpu,
)
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
    "skills-2": skills_2,
    "skills-3": skills_3,
    "skills-4": skills_4,
    "skills-5": skills_5,
    "skills-6": skills_6,
    "skills-7": skills_7,
    "skills-8": skills_8,
    "skills-9": skills_9,
    "skills-10": skills_10,
    "skills-11": skills_11,
    "skills-12": skills_12,
    "skills-13": skills_13,
    "skills-14": skills_14,
    "skills-15": skills_15,
    "skills-16": skills_16,
    "skills-17": skills_17,
    "skills-18": skills_18,
    "skills-19": skills_19,
    "skills-20": skills_20,
    "skills-21": skills_21,
    "skills-22": skills_22,
    "skills-gpu": skills_gpu,
}


def load_recipe(name: str) -> Recipe:
    """Returns the recipe called `name`.

    Raises:
        OptionError: there is none.
    """
    if name not in RECIPES:
        raise OptionError(f"no recipe {name!r}; known: {', '.join(sorted(RECIPES))}", option="recipe")
    return RECIPES[name]()
