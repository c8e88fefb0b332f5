"""Ctrl-C that ends the work in hand instead of throwing it away."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType


@contextlib.contextmanager
def first_interrupt(action: Callable[[], None]) -> Iterator[None]:
    """The first Ctrl-C calls `action`, from the signal handler; a second one interrupts as usual."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)

    def handle(_number: int, _frame: FrameType | None) -> None:
        action()
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
