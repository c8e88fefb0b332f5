"""Sends requests to one server over HTTP/1.1, with little to do for each request and nothing for each byte.

Connections are kept for a while behind an answer. One that breaks before a byte of the next answer had been closed by
the server meanwhile: the request goes out again over another, as if that one had never been there.
"""

import asyncio
import functools
import re
import ssl
import time
from collections import deque
from urllib.parse import urlsplit

from gesso.router.client import Answer, Headers, NotListeningError, ReplicaLostError
from gesso.router.wire import Connection, StaleError

CONNECT_SECONDS = 5.0
IDLE_SECONDS = 3.0
"""Seconds for which an idle connection is kept: less than servers keep theirs."""
MOST_IDLE = 64
_TARGET = re.compile(r"[!-~\x80-\xff]+")
_WITH_BODY = ("POST", "PUT", "PATCH")


class HttpClient:
    """Asks servers over the network, as a `Client` of one event loop.

    Args:
        url: scheme, host and port.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._tls = parts.scheme == "https"
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if self._tls else 80)
        self._named = parts.netloc.rpartition("@")[2].encode("ascii" if parts.netloc.isascii() else "idna")
        self._idle: deque[Connection] = deque()
        self._open: set[Connection] = set()
        self._cut = False

    async def send(self, method: str, target: str, headers: Headers = (), body: bytes = b"") -> Answer:
        """Sends a request; see `Client`."""
        if _TARGET.fullmatch(target) is None:
            raise ReplicaLostError(f"{target!r} is no address")
        head = self._head(method, target, headers, body)
        while True:
            if self._cut:
                raise ReplicaLostError("its connections were cut")
            connection = self._take() or await self._connect()
            try:
                await connection.ask(head, body, method == "HEAD")
            except StaleError:
                continue
            except BaseException:
                connection.abort()
                raise
            return connection

    async def close(self) -> None:
        """Cuts all connections; see `Client`."""
        self._cut = True
        for connection in list(self._open):
            connection.fail(ReplicaLostError("its connections were cut"))
            connection.abort()

    def _head(self, method: str, target: str, headers: Headers, body: bytes) -> bytes:
        lines = [b"%s %s HTTP/1.1\r\nhost: %s\r\n" % (method.encode(), target.encode("latin-1"), self._named)]
        lines += [b"%s: %s\r\n" % pair for pair in headers]
        if body or method in _WITH_BODY:
            lines.append(b"content-length: %d\r\n" % len(body))
        lines.append(b"\r\n")
        return b"".join(lines)

    def _take(self) -> Connection | None:
        """Takes the connection that was used last: the others may grow old."""
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable and time.monotonic() - connection.idle_since < IDLE_SECONDS:
                return connection
            connection.abort()
        return None

    async def _connect(self) -> Connection:
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: Connection(self._keep, self._open),
                    self._host,
                    self._port,
                    ssl=_tls() if self._tls else None,
                )
        except TimeoutError:
            raise NotListeningError(f"no connection within {CONNECT_SECONDS:g} seconds") from None
        except (OSError, UnicodeError) as error:  # the latter where the host is no name that can be looked up
            raise NotListeningError(str(error)) from None
        if self._cut:
            connection.abort()
            raise ReplicaLostError("its connections were cut")
        return connection

    def _keep(self, connection: Connection) -> None:
        if self._cut or len(self._idle) >= MOST_IDLE:
            connection.abort()
        else:
            self._idle.append(connection)


@functools.cache
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()
