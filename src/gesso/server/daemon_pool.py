"""Runs functions in threads that nothing waits for: neither whoever asked, once it has gone, nor the process's end."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Any, TypeVar

from gesso.errors import ClosingError

T = TypeVar("T")


class DaemonPool:
    """Runs at most so many functions at a time.

    One whose future is cancelled is not begun; if it was, it keeps its place until it returns, so that whoever gives
    up and comes again does not have more of them run.
    """

    def __init__(self, size: int, name: str) -> None:
        """
        Args:
            name: of its threads.
        """
        self._size, self._name = size, name
        self._lock = threading.Lock()
        self._waiting: dict[Future[Any], Callable[[], Any]] = {}
        """The oldest first."""
        self._running: set[Future[Any]] = set()
        self._threads = 0
        self._closed = False

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Returns the future of what `work` returns or raises.

        Raises:
            ClosingError: the pool is closed.
        """
        future: Future[T] = Future()
        with self._lock:
            if self._closed:
                raise ClosingError("the server is shutting down")
            self._waiting[future] = work
            starts = self._threads < self._size
            self._threads += starts
        future.add_done_callback(self._forget)
        if starts:
            try:
                threading.Thread(target=self._run, name=self._name, daemon=True).start()
            except BaseException:  # the system gives no more threads now
                with self._lock:
                    self._threads -= 1
                future.cancel()
                raise
        return future

    def close(self) -> None:
        """Ends all futures with a `ClosingError`; what runs goes on, and its result is dropped."""
        with self._lock:
            self._closed = True
            left = [*self._running, *self._waiting]
            self._waiting.clear()
        for future in left:
            with suppress(InvalidStateError):  # it ended, or was cancelled, in this moment
                future.set_exception(ClosingError("the server is shutting down"))

    def _forget(self, future: Future[Any]) -> None:
        """Lets go of what was not begun, with all that it would have read."""
        with self._lock:
            self._waiting.pop(future, None)

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._threads -= 1
                    return
                future = next(iter(self._waiting))
                work = self._waiting.pop(future)
                if not future.set_running_or_notify_cancel():
                    continue
                self._running.add(future)
            _settle(work, future)
            with self._lock:
                self._running.discard(future)
            del work, future


def _settle(work: Callable[[], T], future: Future[T]) -> None:
    with suppress(InvalidStateError):  # the pool was closed meanwhile
        try:
            result = work()
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(result)
