"""Ends a thread that runs a model before the interpreter does: a pass under way would abort it."""

import atexit
import threading
import weakref
from collections.abc import Callable

EXIT_SECONDS = 10.0
"""Seconds for which an interpreter that ends waits for a pass."""


class ExitHook:
    """Is called at the end of the interpreter, between `register` and `unregister`; it keeps nobody alive."""

    def __init__(self, stop: Callable[[], threading.Thread]) -> None:
        """
        Args:
            stop: a method that has the thread end behind its pass, and returns it.
        """
        self._stop = weakref.WeakMethod(stop)

    def register(self) -> None:
        """Asks to be called."""
        atexit.register(self)

    def unregister(self) -> None:
        """Asks not to be called."""
        atexit.unregister(self)

    def __call__(self) -> None:
        if (stop := self._stop()) is not None:
            stop().join(EXIT_SECONDS)
