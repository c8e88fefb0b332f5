"""Tells whoever submitted a request of its events, from the first one to the last, and sums them up."""

import logging
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from gesso.engine.events import Event, Failed, Finished
from gesso.engine.request_state import RequestState
from gesso.engine.totals import Totals

LOG = logging.getLogger(__name__)
Listener = Callable[[Event], None]


@dataclass(eq=False, slots=True)
class _Entry:
    """Holds what is kept of a request beside its state."""

    listener: Listener
    submitted: float


class Listeners:
    """Holds the requests that are under way, each with its listener. Any thread adds them, one tells of them."""

    def __init__(self, lock: AbstractContextManager[object]) -> None:
        """
        Args:
            lock: whoever holds it sees totals that do not change.
        """
        self.totals = Totals()
        self._lock = lock
        self._entries: dict[RequestState, _Entry] = {}

    @property
    def requests(self) -> tuple[RequestState, ...]:
        """Returns the requests whose last event is still to come."""
        return tuple(self._entries)

    def add(self, request: RequestState, listener: Listener, submitted: float) -> None:
        """Adds a request, whose time began at `submitted`, by the monotonic clock."""
        self._entries[request] = _Entry(listener, submitted)

    def late(self, timeout: float | None) -> list[RequestState]:
        """Returns the requests that are under way for longer than `timeout` seconds; None is no limit."""
        if timeout is None:
            return []
        now = time.monotonic()
        return [request for request, entry in tuple(self._entries.items()) if now - entry.submitted > timeout]

    def tell(self, request: RequestState, events: list[Event]) -> None:
        """Passes events on; with its last one a request is gone. One whose listener fails is cancelled."""
        entry = self._entries.get(request)
        if entry is None:
            return
        for event in events:
            with self._lock:
                self.totals.count(event)
            if isinstance(event, Finished | Failed):
                del self._entries[request]
            try:
                entry.listener(event)
            except Exception:
                LOG.exception("a listener failed")
                request.cancelled = True
