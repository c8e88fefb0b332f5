"""Calls functions that users give as options."""

from collections.abc import Iterator
from contextlib import contextmanager

from gesso.errors import OptionError, UserError


@contextmanager
def failures_of(option: str, what: str) -> Iterator[None]:
    """Lets what goes wrong in a function of the user's own be told as its option's fault.

    Args:
        what: the function, as a message begins with it: `the score`.

    Raises:
        OptionError: it failed.
    """
    try:
        yield
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        raise OptionError(f"{what} failed: {type(error).__name__}: {error}", option=option) from error
