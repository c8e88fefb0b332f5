"""Bounds one client's connection before there is a request, and tells HTTP errors in OpenAI's shape.

Life cycle: a head has to be here `head_seconds` after the connection was opened or its last answer was written; then
its body within `body_seconds`, with no pause longer than `pause_seconds`; while an answer is on its way the client may
take its time, but not stop reading for `body_seconds`. Whoever does not keep to it is told with 408 where that is
still possible, and disconnected. A peer that is gone without a word is found by TCP's own probes.
"""

import asyncio
import json
import socket
from dataclasses import dataclass
from functools import partial
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from gesso.server.errors import ApiError

GRACE = 0.05
LINGER = 1.0
"""Seconds for which what comes after an error is read and dropped."""
_PROBES = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4))
"""A silent peer is asked after a minute, and given up after another one."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Bounds what one client may take before its request is looked at."""

    max_connections: int = 1024
    max_headers: int = 100
    max_head_bytes: int = 32 * 2**10
    """Of the address and all headers."""
    head_seconds: float = 15.0
    body_seconds: float = 60.0
    pause_seconds: float = 15.0


class _RefusedError(Exception):
    """Ends the parsing of a head that is past a limit."""


class Connection(HttpToolsProtocol):
    """Speaks HTTP as uvicorn does, within the limits."""

    def __init__(self, limits: ConnectionLimits, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._limits = limits
        self._refusal: ApiError | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._body_ends = 0.0
        self._in_head = True
        self._head_bytes = 0
        self._ended = False
        """Nothing that comes is looked at any more."""

    @classmethod
    def within(cls, limits: ConnectionLimits) -> Any:
        """Returns what uvicorn makes connections with."""
        return partial(cls, limits)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        _probe(transport)
        if len(self.connections) > self._limits.max_connections:
            self._end(ApiError(503, "too many connections are open", code="too_many_connections"))
            return
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._ended or self.transport.is_closing():
            return
        in_head = self._in_head
        super().data_received(data)
        if self._ended or self.transport.is_closing():
            return
        if in_head and self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > self._limits.max_head_bytes:
                self._end(self._too_large())
        elif not self._in_head and self.cycle is not None and self.cycle.more_body:
            self._wait_for_body()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._head_bytes = True, 0

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._count(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        if len(self.headers) > self._limits.max_headers:
            self._refuse(ApiError(431, f"the request has more than {self._limits.max_headers} headers"))
        self._count(len(name) + len(value))

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._disarm()
        self._body_ends = self.loop.time() + self._limits.body_seconds
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._disarm()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._ended and not self.transport.is_closing():
            self._wait_for_head()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._arm(self._limits.body_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        self._disarm()
        super().resume_writing()

    def shutdown(self) -> None:
        if self._ended:
            self.transport.close()
        else:
            super().shutdown()

    def send_400_response(self, msg: str) -> None:
        """Answers what is no HTTP, or what a limit refused while it was parsed."""
        self._end(self._refusal or ApiError(400, _said(msg), code="invalid_http"))

    def _count(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > self._limits.max_head_bytes:
            self._refuse(self._too_large())

    def _too_large(self) -> ApiError:
        return ApiError(431, f"the address and the headers have more than {self._limits.max_head_bytes} bytes")

    def _refuse(self, error: ApiError) -> None:
        self._refusal = error
        raise _RefusedError  # the parser gives up, which ends in `send_400_response`

    def _wait_for_head(self) -> None:
        self._in_head, self._head_bytes = True, 0
        self._arm(self._limits.head_seconds, self._late)

    def _wait_for_body(self) -> None:
        left = self._body_ends - self.loop.time()
        if left > 0:
            self._arm(min(left, self._limits.pause_seconds), self._late)
        else:
            self._give_up()

    def _late(self) -> None:
        # The loop itself may have been late: what is here already is read before anybody is blamed.
        self._arm(GRACE, self._give_up)

    def _give_up(self) -> None:
        """Ends a connection that nothing comes from: without a word where there was none."""
        if self._in_head and not self._head_bytes:
            self.transport.close()
        else:
            self._end(ApiError(408, "the request did not come in time", code="request_timeout"))

    def _end(self, error: ApiError) -> None:
        """Answers with an error, unless an answer is under way, and closes the connection."""
        self._disarm()
        cycle = self.cycle
        if cycle is None or cycle.response_complete or not cycle.response_started:
            body = json.dumps(error.body).encode()
            head = (
                STATUS_LINE[error.status_code],
                b"content-type: application/json\r\n",
                b"content-length: %d\r\n" % len(body),
                b"connection: close\r\n\r\n",
            )
            self.transport.write(b"".join((*head, body)))
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
        self._ended = True
        if self.transport.can_write_eof():
            # What is still coming is read for a while: closing on it would take the answer from the client.
            self.transport.write_eof()
            self._arm(LINGER, self.transport.close)
        else:
            self.transport.close()

    def _arm(self, seconds: float, then: Any) -> None:
        self._disarm()
        self._timer = self.loop.call_later(seconds, then)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _said(message: str) -> str:
    """uvicorn's words as one of ours."""
    return "the request is no HTTP" if message.startswith("Invalid HTTP") else message


def _probe(transport: asyncio.Transport) -> None:
    """Asks the system to look now and then whether the other side is still there."""
    opened = transport.get_extra_info("socket")
    if opened is None or opened.family not in (socket.AF_INET, socket.AF_INET6):
        return
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _PROBES:
        if hasattr(socket, name):
            opened.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
