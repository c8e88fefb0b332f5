"""Lets other threads have the interpreter soon while one computes in Python.

A thread that runs a model gives the interpreter's lock away in every operation, and waits for `sys.getswitchinterval`
to have it back beside a thread that computes. A short interval costs all threads a little, so it is short only while
there is somebody to hand over from.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

QUICK_SECONDS = 0.00003
"""Seconds after which a thread that computes gives the interpreter to one that waits."""


class _Turns:
    def __init__(self) -> None:
        self._lock, self._inside, self._before = Lock(), 0, 0.0

    def enter(self) -> None:
        with self._lock:
            if not self._inside:
                self._before = sys.getswitchinterval()
                sys.setswitchinterval(min(self._before, QUICK_SECONDS))
            self._inside += 1

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                sys.setswitchinterval(self._before)


_turns = _Turns()


@contextmanager
def quick_turns() -> Iterator[None]:
    """Hands the interpreter over quickly while any thread is inside; the last one out leaves it as it was."""
    _turns.enter()
    try:
        yield
    finally:
        _turns.leave()
