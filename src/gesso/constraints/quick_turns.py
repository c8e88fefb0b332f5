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
"""After which a thread that computes gives the interpreter to one that waits."""


_lock = Lock()
_intervals: list[float] = []
"""What each thread that is inside found; the first of them is the interval outside."""


@contextmanager
def quick_turns() -> Iterator[None]:
    """Hands the interpreter over quickly while any thread is inside; the last one out leaves it as it was."""
    with _lock:
        _intervals.append(sys.getswitchinterval())
        if len(_intervals) == 1:
            sys.setswitchinterval(min(_intervals[0], QUICK_SECONDS))
    try:
        yield
    finally:
        with _lock:
            found = _intervals.pop()
            if not _intervals:
                sys.setswitchinterval(found)
