"""Errors that carry what is to blame."""

import pickle

import pytest

from gesso import errors
from gesso.errors import GessoError, NotANumberError, OptionError, QueueFullError, TextError, UserError


def test_an_error_carries_the_option_and_a_hint() -> None:
    error = OptionError("top_k must be at least 0", option="top_k", hint="leave it out")
    assert (str(error), error.option, error.hint) == ("top_k must be at least 0", "top_k", "leave it out")
    assert (TextError("no prompt").option, UserError("x").hint) == (None, None)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.option, again.hint) == (str(error), error.option, error.hint)


def test_a_full_queue_says_the_same_behind_a_process() -> None:
    full = pickle.loads(pickle.dumps(QueueFullError("9 requests wait already", 2.5)))
    assert (str(full), full.retry_after) == ("9 requests wait already", 2.5)


KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, GessoError)]


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_comes_back_from_another_process(kind: type[GessoError]) -> None:
    error = NotANumberError() if kind is NotANumberError else kind("why")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (kind, str(error), vars(error))
