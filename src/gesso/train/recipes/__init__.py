"""Recipes by name. Each is a Python function that returns a complete `Recipe`."""

from collections.abc import Callable

from gesso.errors import OptionError
from gesso.train.config import Recipe
from gesso.train.recipes.mini import mini

RECIPES: dict[str, Callable[[], Recipe]] = {"mini": mini}


def load_recipe(name: str) -> Recipe:
    """The recipe called `name`.

    Raises:
        OptionError: there is none.
    """
    if name not in RECIPES:
        raise OptionError(f"no recipe {name!r}; known: {', '.join(sorted(RECIPES))}")
    return RECIPES[name]()
