"""Is one HTTP/1.1 connection to a server: a request out, its answer in.

Life cycle: `ask` writes a request and waits for the head of the answer; `chunks` or `read` take the body; `close` hands
the connection back where the answer was read to its end and the server keeps it, and cuts it otherwise. Then `ask`
again. While more than `FULL` bytes wait for whoever reads, nothing more is taken from the server.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import cast

import httptools

from gesso.router.client import NoHttpError, ReplicaLostError

FULL = 2**18
"""Bytes that wait: above it the server is held up until all of them are taken."""


class StaleError(Exception):
    """Reports a connection kept from an earlier request that broke before a byte of this answer."""


class Connection(asyncio.Protocol):
    """Speaks HTTP over one connection, and is the `Answer` that comes over it.

    Args:
        keep: takes the connection when it is free for another request.
        opened: has it for as long as it is open.
    """

    def __init__(self, keep: Callable[["Connection"], None], opened: "set[Connection]") -> None:
        self._keep, self._opened = keep, opened
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._asked = 0
        self.idle_since = 0.0
        self._begin(bodiless=False)

    def _begin(self, bodiless: bool) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._bodiless = bodiless
        self._heard = self._headed = self._ended = self._paused = self._closed = False
        self._framed = False
        """Whether the end of the body is told by its head, and not by the end of the connection."""
        self._kept = False
        """Whether the server keeps the connection."""
        self._parts: list[bytes] = []
        self._waiting = 0
        self._error: ReplicaLostError | None = None
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []

    @property
    def is_usable(self) -> bool:
        """Says whether another request can be sent."""
        return self._transport is not None and not self._transport.is_closing() and self._error is None

    async def ask(self, head: bytes, body: bytes, bodiless: bool) -> None:
        """Sends a request and returns when the head of its answer is here.

        Args:
            bodiless: whether the answer has no body, whatever its head says.

        Raises:
            ReplicaLostError: there is no answer.
            StaleError: the server had closed the connection before.
        """
        assert self._transport is not None
        self._begin(bodiless)
        self._asked += 1
        if len(body) > FULL:
            self._transport.write(head)
            self._transport.write(body)
        else:
            self._transport.write(head + body)
        while not self._headed:
            if self._error is not None:
                if self._asked > 1 and not self._heard:
                    raise StaleError
                raise self._error
            await self._news()

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yields what has come since the last time; see `Answer`."""
        while True:
            if self._parts:
                part = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
                self._parts, self._waiting = [], 0
                if self._paused and self._transport is not None:
                    self._paused = False
                    self._transport.resume_reading()
                yield part
            elif self._ended:
                return
            elif self._error is not None:
                raise self._error
            else:
                await self._news()

    async def read(self) -> bytes:
        """Returns the whole body; see `Answer`."""
        return b"".join([part async for part in self.chunks()])

    async def close(self) -> None:
        """Hands the connection back or cuts it; see `Answer`."""
        if self._closed:
            return
        self._closed = True
        whole = self._ended and self._framed and not self._parts and not self._bodiless
        if whole and self._kept and self.is_usable:
            self.idle_since = time.monotonic()
            self._keep(self)
        else:
            self.abort()

    def abort(self) -> None:
        """Cuts the connection."""
        if self._transport is not None:
            self._transport.abort()

    def fail(self, error: ReplicaLostError) -> None:
        """Tells whoever waits that nothing more comes."""
        if self._error is None:
            self._error = error
        self._wake()

    async def _news(self) -> None:
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # What asyncio tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._opened.add(self)

    def data_received(self, data: bytes) -> None:
        if self._error is not None:
            return
        self._heard = True
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self.fail(NoHttpError(f"its answer is no HTTP: {error}"))
            self.abort()
            return
        if self._waiting > FULL and not self._paused and self._transport is not None and self.is_usable:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self._opened.discard(self)
        if exc is None and self._headed and not self._framed:
            self._ended = True
        said = f": {exc}" if exc is not None and str(exc) else ""
        self.fail(ReplicaLostError(f"the connection was closed before the end of the answer{said}"))

    # What the parser tells.

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:  # what comes before an answer
            self.headers = []
            return
        self.status, self._headed, self._kept = status, True, self._parser.should_keep_alive()
        names = {name for name, _ in self.headers}
        self._framed = bool(names & {b"content-length", b"transfer-encoding"}) or status in (204, 304)
        if self._bodiless:
            self._ended = self._framed = True

    def on_body(self, body: bytes) -> None:
        if not self._bodiless:
            self._parts.append(body)
            self._waiting += len(body)

    def on_message_complete(self) -> None:
        if self._headed:
            self._ended = True
