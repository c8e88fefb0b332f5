"""Bounds one client's connection before there is a request, and tells HTTP errors in OpenAI's shape.

Life cycle: a head has to be here `head_seconds` after the connection was opened or its last answer was read; then
its body within `body_seconds`, with no pause longer than `pause_seconds`, also where the answer was there before it.
While an answer is made nothing is asked of the client, whatever it sends ahead; what is written has to be read, a
part in each `body_seconds`. One timer bounds what is owed at the time: `_wait` says which. Whoever does not keep to it
is told with 408 where that would be an answer, and disconnected. A peer that is gone without a word is found by TCP's
own probes.
"""

import asyncio
import json
import socket
from dataclasses import dataclass
from functools import partial
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from gesso.server.errors import ApiError
from gesso.server.plain_http import PlainHttp

GRACE = 0.05
LINGER = 1.0
"""Seconds for which what comes after an error is read and dropped."""
SLOWEST = 64 * 2**10
"""Bytes of an answer that are read in `body_seconds` at least, or all that are left."""
_PROBES = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4))
"""A silent peer is asked after a minute, and given up after another one."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Bounds what one client may take before its request is looked at."""

    max_connections: int = 1024
    max_headers: int = 100
    max_head_bytes: int = 32 * 2**10
    """Bytes of the address and all headers."""
    head_seconds: float = 15.0
    body_seconds: float = 60.0
    pause_seconds: float = 15.0


class _RefusedError(Exception):
    """Ends the parsing of a head that is past a limit."""


class Connection(PlainHttp):
    """Speaks HTTP within the limits."""

    def __init__(self, limits: ConnectionLimits, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._limits = limits
        self._refusal: ApiError | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._body_ends = 0.0
        self._in_head = True
        """Whether the next byte is none of a body."""
        self._head_bytes = 0
        """Bytes of the address and the headers that were parsed."""
        self._raw_bytes = 0
        """Bytes that came since the last head or body was complete; a header counts above only once it is whole."""
        self._running: RequestResponseCycle | None = None
        """The oldest request without its whole answer, else the last one. Later ones wait in `pipeline`."""
        self._ended = False
        """Nothing that comes is looked at any more."""

    @classmethod
    def within(cls, limits: ConnectionLimits) -> Any:
        """Returns what uvicorn makes connections with."""
        return partial(cls, limits)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        _probe(transport)
        # Writing pauses as soon as anything is left unread, so that the timer of `pause_writing` covers all of it.
        transport.set_write_buffer_limits(high=0)
        if len(self.connections) > self._limits.max_connections:
            self._end(ApiError(503, "too many connections are open", code="too_many_connections"))
            return
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        self._unset_keepalive_if_required()
        self._disconnect()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._ended or self.transport.is_closing():
            return
        self._raw_bytes += len(data)
        super().data_received(data)
        if self._ended or self.transport.is_closing():
            return
        if not self._in_head:
            self._wait()
        elif self._raw_bytes > self._limits.max_head_bytes:
            self._end(self._too_large())

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._count(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        if len(self.headers) > self._limits.max_headers:
            self._refuse(ApiError(431, f"the request has more than {self._limits.max_headers} headers"))
        self._count(len(name) + len(value))

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        if not self.pipeline:
            self._running = self.cycle
        self._in_head, self._raw_bytes = False, 0
        self._body_ends = self.loop.time() + self._limits.body_seconds
        self._wait()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._in_head, self._raw_bytes, self._head_bytes = True, 0, 0
        self._wait()

    def on_response_complete(self) -> None:
        if self.pipeline:
            self._running = self.pipeline[-1][0]
            self._body_ends = self.loop.time() + self._limits.body_seconds
        super().on_response_complete()
        self._unset_keepalive_if_required()  # uvicorn's timer is shorter than ours
        self._wait()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_reader()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._disarm()
        self._wait()

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

    @property
    def _answered(self) -> bool:
        """Whether no request is without its whole answer."""
        return self._running is None or self._running.response_complete

    def _wait(self) -> None:
        """Arms the timer for what the client owes now, if it owes anything."""
        if self._ended or self.transport.is_closing() or self.flow.write_paused:
            return  # bounded already
        if self._in_head and self._answered:
            self._arm(self._limits.head_seconds, self._late)
        elif self._in_head or self.pipeline:
            self._disarm()
        elif (left := self._body_ends - self.loop.time()) > 0:
            self._arm(min(left, self._limits.pause_seconds), self._late)
        else:
            self._give_up()

    def _late(self) -> None:
        # The loop itself may have been late: what is here already is read before anybody is blamed.
        self._arm(GRACE, self._give_up)

    def _watch_reader(self) -> None:
        """Aborts the connection unless enough of what is unread now is read in time; nothing left ends the watch."""
        unread = self.transport.get_write_buffer_size()

        def look() -> None:
            if unread - self.transport.get_write_buffer_size() < SLOWEST:
                self.transport.abort()
            else:
                self._watch_reader()

        self._arm(self._limits.body_seconds, look)

    def _give_up(self) -> None:
        """Ends a connection that nothing comes from: without a word where there was none."""
        if self._in_head and not self._raw_bytes:
            self.transport.close()
        else:
            self._end(ApiError(408, "the request did not come in time", code="request_timeout"))

    def _end(self, error: ApiError) -> None:
        """Answers with an error, where no other answer has begun to the same request, and closes the connection."""
        begun = not self._in_head if self._answered else self._running is not None and self._running.response_started
        if not begun:
            body = json.dumps(error.body).encode()
            head = (
                STATUS_LINE[error.status_code],
                b"content-type: application/json\r\n",
                b"content-length: %d\r\n" % len(body),
                b"connection: close\r\n\r\n",
            )
            self.transport.write(b"".join((*head, body)))
        self._disconnect()
        self._ended = True
        if self.transport.can_write_eof() and not self.flow.write_paused:
            # What is still coming is read for a while: closing on it would take the answer from the client.
            self.transport.write_eof()
            self._arm(LINGER, self.transport.close)
        else:
            self.transport.close()

    def _disconnect(self) -> None:
        """Tells the request that runs, which `cycle` is not where others were sent behind it."""
        if self._running is not None and not self._running.response_complete:
            self._running.disconnected = True
            self._running.message_event.set()

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
