"""The first signal ends the work in hand, a second one the command; what is ignored stays ignored."""

import os
import signal
import threading

import pytest

from gesso.cli.interrupt import first_interrupt
from gesso.cli.signals import NUMBERS, SIGNALS, Signals

REPEATED = [signal.SIGINT, signal.SIGTERM]
"""Signals that count each time."""


@pytest.fixture(autouse=True)
def default_handlers() -> object:
    """Those of Python, and then what was there before."""
    before = {number: signal.getsignal(number) for number in NUMBERS}
    for number in NUMBERS:
        signal.signal(number, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", REPEATED)
def test_the_first_signal_calls_and_the_second_interrupts(number: signal.Signals) -> None:
    calls: list[int] = []
    with first_interrupt(lambda: calls.append(1)):
        signal.raise_signal(number)
        assert (calls, SIGNALS.received) == ([1], number)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
    assert calls == [1]
    assert signal.getsignal(number) is signal.default_int_handler


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="there is no such signal here")
def test_a_terminal_hangs_up_once() -> None:
    """The shell and the system both tell of it, and what the first signal began must not be thrown away."""
    calls: list[int] = []
    with first_interrupt(lambda: calls.append(1)):
        signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGHUP)
        assert (calls, SIGNALS.received, SIGNALS.exit_code()) == ([1], signal.SIGHUP, 129)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
    signal.raise_signal(signal.SIGHUP)


@pytest.mark.parametrize("number", NUMBERS)
def test_what_is_ignored_stays_ignored(number: signal.Signals) -> None:
    signal.signal(number, signal.SIG_IGN)
    with first_interrupt(lambda: pytest.fail("nobody asked")):
        os.kill(os.getpid(), number)
    assert signal.getsignal(number) is signal.SIG_IGN


def test_other_threads_have_no_signals() -> None:
    found: list[object] = []

    def work() -> None:
        with first_interrupt(lambda: None):
            found.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [signal.default_int_handler]


def test_a_command_that_goes_on_can_be_interrupted_again() -> None:
    """As `gesso chat` does at its prompt."""
    signals = Signals()
    signals.running = True
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            signals.handle(signal.SIGINT, None)
        assert signals.received == signal.SIGINT
        signals.recovered()
    assert signals.received is None


def test_one_that_does_not_go_on_ends_at_the_second(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[int] = []

    def leave(code: int) -> None:
        ended.append(code)
        raise SystemExit

    monkeypatch.setattr(os, "_exit", leave)
    monkeypatch.setattr(os, "write", lambda *_: None)
    signals = Signals()
    signals.running = True
    with pytest.raises(KeyboardInterrupt):
        signals.handle(signal.SIGINT, None)
    with pytest.raises(SystemExit):
        signals.handle(signal.SIGTERM, None)
    assert ended == [143]
