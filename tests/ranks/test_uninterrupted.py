"""A lock within which Ctrl-C waits: once, and in the main thread alone."""

import signal
import threading
from collections.abc import Iterator

import pytest

from gesso.ranks.uninterrupted import UninterruptedLock


@pytest.fixture(autouse=True)
def handler() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Pass:
    """Work under a lock that is interrupted so many times before it is done."""

    def __init__(self) -> None:
        self.broken = self.done = 0
        self.lock = UninterruptedLock(self.break_off)

    def break_off(self) -> None:
        self.broken += 1

    def run(self, interrupts: int) -> None:
        with self.lock:
            with self.lock:
                for _ in range(interrupts):
                    signal.raise_signal(signal.SIGINT)
            self.done += 1


def test_an_interrupt_comes_when_the_lock_is_free_again() -> None:
    work = Pass()
    with pytest.raises(KeyboardInterrupt):
        work.run(1)
    assert (work.done, work.broken) == (1, 0)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    work.run(0)
    assert (work.done, work.broken) == (2, 0)


def test_a_second_one_comes_at_once_and_is_told_of() -> None:
    work = Pass()
    with pytest.raises(KeyboardInterrupt):
        work.run(2)
    assert work.done == 0
    assert work.broken
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_errors_leave_everything_as_it_was() -> None:
    broken: list[int] = []
    lock = UninterruptedLock(lambda: broken.append(1))
    with pytest.raises(ZeroDivisionError), lock:
        raise ZeroDivisionError
    assert not broken
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_threads_exclude_each_other_and_leave_signals_alone() -> None:
    lock, entered, leave = UninterruptedLock(lambda: None), threading.Event(), threading.Event()
    found: list[object] = []

    def work() -> None:
        with lock:
            found.append(signal.getsignal(signal.SIGINT))
            entered.set()
            leave.wait(30)
            found.append(1)

    thread = threading.Thread(target=work)
    thread.start()
    assert entered.wait(30)
    threading.Timer(0.05, leave.set).start()
    with lock:
        found.append(2)
    thread.join(30)
    assert found == [signal.default_int_handler, 1, 2]


def test_a_process_that_ignores_interrupts_goes_on_to() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with UninterruptedLock(lambda: None):
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
