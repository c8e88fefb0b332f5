"""Makes a span of every replica that a request is sent to, and tells the replica that it works for it.

By OpenTelemetry's conventions for clients of HTTP. Without traces, or where a request is not kept in one, none is made
and the client's own headers of the trace are passed on.
"""

import time
from urllib.parse import urlsplit

from gesso.router.asked import Asked
from gesso.router.client import Headers
from gesso.router.replicas import Replica
from gesso.telemetry import w3c
from gesso.telemetry.traces import Span, Value


class TrySpans:
    """Makes the spans of one request, one after the other.

    Args:
        parent: the span of the request; None without traces.
    """

    def __init__(self, parent: Span | None, asked: Asked) -> None:
        self._parent, self._asked = parent, asked
        self._span: Span | None = None
        self._tries = 0
        self._waiting: float | None = None
        self._error = ""
        self.resumed = ""
        """How the next try goes on with a stream of which the client has the beginning: `seed` or `begin`."""

    def waits(self) -> None:
        """Notes that no replica takes requests."""
        if self._waiting is None:
            self._waiting = time.monotonic()

    def begin(self, replica: Replica) -> None:
        """Begins the span of a try."""
        self._tries += 1
        if self._parent is None:
            return
        if self._waiting is not None:
            self._parent.note("wait for a replica", self._waiting, time.monotonic())
            self._waiting = None
        at = urlsplit(replica.url)
        attributes: dict[str, Value] = {
            "http.request.method": self._asked.method,
            "server.address": at.hostname or replica.url,
            "gesso.replica": replica.name,
            "gesso.resumed": self.resumed or "no",
        }
        if at.port is not None:
            attributes["server.port"] = at.port
        if self._tries > 1:
            attributes["http.request.resend_count"] = self._tries - 1
        self._span, self._error = self._parent.child(self._asked.method, "client", attributes), ""

    @property
    def headers(self) -> Headers:
        """Returns the headers for the replica."""
        if self._span is None or not (ours := self._span.headers()):
            return self._asked.headers
        kept = [pair for pair in self._asked.headers if pair[0] not in w3c.HEADERS]
        return [*kept, *((name.encode(), value.encode("latin-1")) for name, value in ours.items())]

    def answered(self, status: int) -> None:
        """Notes the status of the replica's answer."""
        if self._span is not None:
            self._span.set({"http.response.status_code": status})
            self._error = str(status) if status >= 400 else ""

    def failed(self, error: Exception) -> None:
        """Notes what the try failed with."""
        if self._span is not None:
            self._error = self._error or type(error).__name__.lstrip("_")

    def end(self) -> None:
        """Ends the span of the try, if there is one."""
        if self._span is not None:
            self._span.end(self._error)
            self._span = None
