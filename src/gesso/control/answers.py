"""Checks the answers that a model is to choose from; it takes no model, so that a mistake need not wait for one."""

from collections.abc import Iterable

from gesso.errors import OptionError

MOST_OPTIONS = 64


def checked_answers(given: object) -> tuple[str, ...]:
    """Returns answers that can be scored beside each other.

    Raises:
        OptionError: they are no list of texts, fewer than two or too many, or one is empty or given twice.
    """
    options = tuple(given) if isinstance(given, Iterable) and not isinstance(given, str) else (given,)
    if isinstance(given, str) or not all(isinstance(option, str) for option in options):
        raise OptionError("options must be a list of strings", option="options")
    if not 2 <= len(options) <= MOST_OPTIONS:
        raise OptionError(
            f"options: give two answers at least and {MOST_OPTIONS} at most, got {len(options)}", option="options"
        )
    if "" in options:
        raise OptionError("options: an answer is empty", option="options")
    twice = next((option for option in options if options.count(option) > 1), None)
    if twice is not None:
        raise OptionError(f"options: {twice!r} is given twice", option="options")
    return options
