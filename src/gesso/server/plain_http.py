"""Speaks HTTP/1 as uvicorn does, and besides takes clients that offer another protocol or know HTTP/1.0 alone.

A request with `Upgrade` (Java's client and `curl --http2` offer HTTP/2 so) is answered as if it had none, which RFC
9110, section 7.8, leaves to a server. The parser stops behind such a head; its body is read by another one, which is
given a head that says no more than how long the body is. An answer without a length goes to an HTTP/1.0 client as it
is, and ends with the connection (RFC 9112, section 6.1).
"""

import functools
from typing import Any

import httptools
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

_FRAMING = (b"content-length", b"transfer-encoding")


class PlainHttp(HttpToolsProtocol):
    """Is one client's connection, which stays HTTP/1."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._repeated = False
        """Whether what is parsed is a head once more."""

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        while data:
            try:
                data = self._parse(data)
            except httptools.HttpParserError:
                self._repeated = False
                self.send_400_response("Invalid HTTP request received.")
                return

    def _parse(self, data: bytes) -> bytes:
        """Parses what has come; returns what is left of it behind a head that offers another protocol."""
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as stopped:
            self._expect_body()
            rest: bytes = data[stopped.args[0] :]
            return rest
        return b""

    def _expect_body(self) -> None:
        """Has what follows read as the body of the last head."""
        framing = [b"%s: %s\r\n" % header for header in self.headers if header[0] in _FRAMING]
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn's
        self._repeated = True
        self.parser.feed_data(b"POST / HTTP/1.1\r\n%s\r\n" % b"".join(framing))
        self._repeated = False

    def on_message_begin(self) -> None:
        if not self._repeated:
            super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        if not self._repeated:
            super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._repeated:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if not self._repeated:
            super().on_headers_complete()

    def on_message_complete(self) -> None:
        if not self.parser.should_upgrade():  # else its body is still to come
            super().on_message_complete()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        old = cycle.scope["http_version"] == "1.0"
        super()._start_asgi_task(cycle, functools.partial(_unchunked, app, cycle) if old else app)


async def _unchunked(app: ASGIApp, cycle: RequestResponseCycle, scope: Scope, receive: Receive, send: Send) -> None:
    """Runs an application whose answer, where it has no length, is written as it comes."""
    as_it_comes = False

    async def write(message: Message) -> None:
        nonlocal as_it_comes
        if message["type"] == "http.response.start":
            as_it_comes = all(name.lower() != b"content-length" for name, _ in message.get("headers", []))
            if as_it_comes:
                cycle.chunked_encoding = False
        elif as_it_comes:
            cycle.expected_content_length = len(message.get("body", b""))
        await send(message)

    await app(scope, receive, write)
