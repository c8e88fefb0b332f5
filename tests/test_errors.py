"""Errors that carry what is to blame."""

import pickle

from gesso.errors import OptionError, QueueFullError, TextError, UserError


def test_an_error_carries_the_option_and_a_hint() -> None:
    error = OptionError("top_k must be at least 0", option="top_k", hint="leave it out")
    assert (str(error), error.option, error.hint) == ("top_k must be at least 0", "top_k", "leave it out")
    assert (TextError("no prompt").option, UserError("x").hint) == (None, None)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.option, again.hint) == (str(error), error.option, error.hint)


def test_a_full_queue_says_the_same_behind_a_process() -> None:
    full = pickle.loads(pickle.dumps(QueueFullError("9 requests wait already", 2.5)))
    assert (str(full), full.retry_after) == ("9 requests wait already", 2.5)
