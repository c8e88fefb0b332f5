"""Counts what filters, tests and comparisons of a template look at, which are loops without turns of their own."""

import functools
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

from gesso.text.sandbox_budget import BUDGET
from gesso.text.sandbox_sizes import compared_size

_PASSING = {"map", "reject", "rejectattr", "select", "selectattr", "sum"}
"""Filters that compute something of item after item."""
_ORDERING = {"groupby", "max", "min", "sort", "unique"}
"""Filters that compare items with one another."""
_COLLECTING = {"batch", "join", "list", "slice"}
"""Filters that make a list of all items."""
_COMPARING = {
    "!=", "<", "<=", "==", ">", ">=", "eq", "equalto", "ge", "greaterthan", "gt", "in", "le", "lessthan", "lt", "ne",
}  # fmt: skip
"""Tests that compare."""


def counted_input(name: str, value: Any) -> Any:
    """Returns what a filter of this name is given instead of a value: the same items, counted.

    Raises:
        TemplateLimitError: there are too many.
    """
    budget = BUDGET.get()
    budget.check_time()
    if not isinstance(value, Iterable) or not value:  # nothing at all, which Jinja's filters take for no items
        return value
    if name in _PASSING:
        return _one_by_one(value)
    if name in _ORDERING:
        items = list(_one_by_one(value))
        budget.look(compared_size(items))
        return items
    if name == "dictsort":
        budget.look(compared_size(value))
    elif name in _COLLECTING and isinstance(value, Collection):
        budget.look(len(value))
    return value


def _one_by_one(items: Iterable[Any]) -> Iterator[Any]:
    budget = BUDGET.get()
    for item in items:
        budget.look()
        yield item


def counted_test(name: str, function: Any) -> Callable[..., Any]:
    """Makes a test count what it looks at."""
    compares = name in _COMPARING

    @functools.wraps(function)  # keeps the mark that says what Jinja passes first
    def counted(*args: Any, **kwargs: Any) -> Any:
        values = (*args, *kwargs.values())
        if name == "in":
            searched(values[-1])
        if compares:
            compared(*values)
        else:
            BUDGET.get().check_time()
        return function(*args, **kwargs)

    return counted


def compared(*values: Any) -> Any:
    """Counts values that are compared, or looked up by their hash, and returns the first. A text counts as one item."""
    items = 1
    for value in values:
        if isinstance(value, list | tuple | dict):
            items += compared_size(value)
    BUDGET.get().look(items)
    return values[0]


def searched(value: Any) -> Any:
    """Counts a value in which another is searched for."""
    items = [*value] if isinstance(value, Collection) and not isinstance(value, str | dict) else value
    BUDGET.get().look(1 + (0 if isinstance(items, dict) else compared_size(items)))
    return value


def cut(value: Any) -> Any:
    """Looks at the clock before a part of a value is taken."""
    BUDGET.get().check_time()
    return value


def count_method(owner: Any, args: Collection[Any]) -> None:
    """Counts what a method may compare: `index` and `count` of lists, keys of dicts."""
    BUDGET.get().check_time()
    for value in (owner, *args) if isinstance(owner, list | tuple) else args:
        if isinstance(value, list | tuple):
            BUDGET.get().look(compared_size(value))
