"""Lets a signal end the work in hand instead of throwing it away."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

from gesso.cli.signals import NUMBERS, SIGNALS


@contextlib.contextmanager
def first_interrupt(action: Callable[[], None]) -> Iterator[None]:
    """Calls `action` at the first signal that would end the command, from its handler; a second one interrupts as
    usual."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    found = {number: signal.getsignal(number) for number in NUMBERS}
    # What the parent process chose to ignore stays ignored.
    before = {number: handler for number, handler in found.items() if handler is not signal.SIG_IGN}

    def restore() -> None:
        for number, handler in before.items():
            if signal.getsignal(number) is not signal.SIG_IGN:  # SIGHUP counts once
                signal.signal(number, handler)

    def handle(number: int, _frame: FrameType | None) -> None:
        SIGNALS.receive(number)
        action()
        restore()

    for number in before:
        signal.signal(number, handle)
    try:
        yield
    finally:
        restore()
