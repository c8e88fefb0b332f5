"""Functions that users give: what goes wrong in them is their option's fault."""

import sys

import pytest

from gesso.errors import OptionError, TextError
from gesso.options.functions import failures_of


def test_a_failure_is_told_by_what_failed_and_keeps_its_cause() -> None:
    with pytest.raises(OptionError, match=r"^the score failed: ZeroDivisionError: division by zero$") as error:
        _run(lambda: 1 / 0)
    assert error.value.option == "score"
    assert isinstance(error.value.__cause__, ZeroDivisionError)
    with pytest.raises(OptionError, match=r"^the score failed: SystemExit: 3$"):
        _run(lambda: sys.exit(3))


def test_what_is_told_already_and_what_ends_the_program_come_as_they_are() -> None:
    with pytest.raises(TextError, match=r"^the prompt is empty$"):
        _run(lambda: _raise(TextError("the prompt is empty")))
    with pytest.raises(KeyboardInterrupt):
        _run(lambda: _raise(KeyboardInterrupt()))


def _run(function: object) -> None:
    with failures_of("score", "the score"):
        function()  # type: ignore[operator]


def _raise(error: BaseException) -> None:
    raise error
