"""Holds Ctrl-C back while ranks compute together: one that stops in the middle of that is out of step with the others.

What comes of two ranks out of step is no error: sums of different sizes meet, and the library that adds them up ends
the process.
"""

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any


class UninterruptedLock:
    """Locks re-entrantly. While the main thread holds it, or waits for it, the first Ctrl-C has no effect; it has
    when the lock is free again. A second one interrupts at once."""

    def __init__(self, broken: Callable[[], None]) -> None:
        """
        Args:
            broken: called where an interrupt has come through all the same.
        """
        self._broken = broken
        self._lock = threading.RLock()
        self._depth = 0
        """How often the main thread has it."""
        self._previous: Callable[[int, FrameType | None], Any] | None = None
        """Handles Ctrl-C otherwise."""
        self._noted = False
        """Whether Ctrl-C was pressed meanwhile."""

    def __enter__(self) -> None:
        self._hold_back()
        try:
            self._lock.acquire()
        except BaseException:
            self._let_through()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None and not issubclass(kind, Exception):
            self._broken()
        self._lock.release()
        self._let_through()

    def _hold_back(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return  # which alone is interrupted
        previous = signal.getsignal(signal.SIGINT)
        if not self._depth and callable(previous):
            self._previous = previous
            signal.signal(signal.SIGINT, self._note)
        self._depth += 1

    def _let_through(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        self._depth -= 1
        if self._depth or self._previous is None:
            return
        signal.signal(signal.SIGINT, self._previous)
        self._previous = None
        if self._noted:
            self._noted = False
            signal.raise_signal(signal.SIGINT)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if not self._noted:
            self._noted = True
        elif self._previous is not None:
            self._noted = False
            self._previous(number, frame)
