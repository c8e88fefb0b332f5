"""The interpreter's turns are short while anybody is inside, and as they were afterwards."""

import sys
import threading
from collections.abc import Iterator

import pytest

from gesso.constraints.budget import Budget
from gesso.constraints.compilation import Compilation, Compiled
from gesso.constraints.quick_turns import QUICK_SECONDS, quick_turns


@pytest.fixture(autouse=True)
def usual() -> Iterator[float]:
    """Another interval than Python's own, which a test leaves as it found it."""
    for thread in threading.enumerate():
        if thread.name == "gesso-compile":  # what another test gave up
            thread.join(60)
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.002)
    yield sys.getswitchinterval()
    sys.setswitchinterval(before)


def test_turns_are_short_until_the_last_one_is_out(usual: float) -> None:
    quick = pytest.approx(QUICK_SECONDS, abs=1e-6)
    with quick_turns():
        assert sys.getswitchinterval() == quick
        with pytest.raises(ZeroDivisionError), quick_turns():
            raise ZeroDivisionError
        assert sys.getswitchinterval() == quick
    assert sys.getswitchinterval() == usual


def test_shorter_ones_stay() -> None:
    sys.setswitchinterval(1e-6)
    with quick_turns():
        assert sys.getswitchinterval() == pytest.approx(1e-6)
    assert sys.getswitchinterval() == pytest.approx(1e-6)


def test_they_are_short_while_a_constraint_is_compiled(usual: float) -> None:
    def make() -> Compiled[float]:
        return Compiled(sys.getswitchinterval(), ())

    compilation = Compilation(make, Budget(), lambda: None)
    assert compilation.join()
    assert compilation.result(60) == pytest.approx(QUICK_SECONDS, abs=1e-6)
    assert sys.getswitchinterval() == usual
