"""Reads a part of a file over HTTP, and goes on where it was when a connection breaks.

Each connection asks the Hub for the file anew, by its own address, because the addresses that the Hub leads on to
expire. A token is sent to the Hub alone, never to where it leads on.
"""

import functools
import http.client
import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from os import environ
from time import sleep
from typing import Any

from gesso.errors import HubError
from gesso.models.hub import LOG_IN

PIECE = 1 << 20
"""Bytes that are read at a time."""
BREAKS = 6
"""Connections in a row that may bring nothing."""
PATIENCE = 30.0
"""Seconds without a byte after which a connection counts as broken."""
LONGEST_PAUSE = 60.0
_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})")
_AGAIN = "the same command again goes on where it stopped"


class _BrokenError(Exception):
    """Says that another connection may do better.

    Args:
        pause: seconds that the server asks to be left alone.
    """

    def __init__(self, message: str, pause: float = 0.0) -> None:
        super().__init__(message)
        self.pause = pause


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects, with the headers for the server itself where it leads on to itself, as for a repository that
    was renamed."""

    def redirect_request(self, req: urllib.request.Request, *args: Any, **kwargs: Any) -> urllib.request.Request | None:
        new = super().redirect_request(req, *args, **kwargs)
        if new is not None and (new.type, new.host) == (req.type, req.host):
            new.unredirected_hdrs.update(req.unredirected_hdrs)
        return new


@dataclass(frozen=True, slots=True)
class RemoteBytes:
    """Reads a file on a server, of a size that is known."""

    name: str
    url: str
    size: int
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Headers for the server itself, not for those that it leads on to."""

    def read(self, begin: int, end: int) -> bytes:
        """Returns bytes `begin` to `end`, `end` left out.

        Raises:
            HubError: as `stream`.
        """
        return b"".join(self.stream(begin, end))

    def stream(self, begin: int, end: int | None = None) -> Generator[bytes]:
        """Yields bytes `begin` to `end`, in order and each once, over as many connections as it takes.

        Raises:
            HubError: `BREAKS` connections in a row brought nothing, or the server refuses the file or has another one.
        """
        position, stop, failures = begin, self.size if end is None else end, 0
        while position < stop:
            try:
                for piece in self._connection(position, stop):
                    position += len(piece)
                    failures = 0
                    yield piece
                if position < stop:
                    raise _BrokenError("the connection was closed too early")
            except (_BrokenError, OSError, http.client.HTTPException) as error:
                failures += 1
                why = " ".join(str(error).split()) or type(error).__name__
                if failures >= BREAKS:
                    raise HubError(
                        f"fetching {self.name} broke off {BREAKS} times in a row ({why}); {_AGAIN}"
                    ) from None
                asked = error.pause if isinstance(error, _BrokenError) else 0.0
                sleep(min(max(asked, 0.5 * 2**failures), LONGEST_PAUSE))

    def _connection(self, begin: int, end: int) -> Iterator[bytes]:
        request = urllib.request.Request(self.url, headers={"Accept-Encoding": "identity"})
        request.add_header("Range", f"bytes={begin}-{end - 1}")
        for key, value in self.headers.items():
            request.add_unredirected_header(key, value)
        with self._open(request) as response:
            before = self._bytes_before(response, begin, end)
            left = before + end - begin
            while left:
                piece, broken = _next_piece(response, min(PIECE, before or left))
                left -= len(piece)
                if before:
                    before -= len(piece)
                elif piece:
                    yield piece
                if broken is not None:
                    raise broken
                if not piece:
                    return

    def _open(self, request: urllib.request.Request) -> Any:
        try:
            secure = urllib.request.HTTPSHandler(context=_certificates())
            return urllib.request.build_opener(secure, _Redirects).open(request, timeout=PATIENCE)
        except urllib.error.HTTPError as error:
            with error:
                if error.code in (408, 429) or error.code >= 500:
                    asked = error.headers.get("Retry-After", "")
                    pause = float(asked) if asked.isdecimal() else 0.0
                    raise _BrokenError(f"HTTP status {error.code}", pause) from None
            hint = f"; {LOG_IN}" if error.code in (401, 403) else ""
            raise HubError(f"the server refused {self.name} (HTTP status {error.code}){hint}") from None
        except ValueError as error:
            raise HubError(f"the server sends to an address of {self.name} that is none: {error}") from None

    def _bytes_before(self, response: Any, begin: int, end: int) -> int:
        """Returns how many bytes an answer has before the part that was asked for: none, or all that precede it where
        a server, or a proxy on the way, sends whole files only.

        Raises:
            HubError: it is of another file, or of another place.
        """
        if response.status == 200:
            length = response.headers.get("Content-Length", str(self.size))
            if length != str(self.size):
                raise HubError(f"{self.name} has {length} bytes on its server, and the Hub says {self.size}")
            return begin
        found = _RANGE.fullmatch(response.headers.get("Content-Range", ""))
        if response.status != 206 or found is None:
            raise HubError(f"the server of {self.name} does not say which part it sends (HTTP {response.status})")
        first, last, size = (int(number) for number in found.groups())
        if size != self.size:
            raise HubError(f"{self.name} has {size} bytes on its server, and the Hub says {self.size}")
        if first != begin or last >= end:
            raise HubError(f"the server of {self.name} sends another part than was asked for")
        return 0


def _next_piece(response: Any, count: int) -> tuple[bytes, Exception | None]:
    """Reads up to `count` bytes, fewer where the connection ends; returns them, and the error that it broke with."""
    piece = bytearray()
    try:
        while len(piece) < count and (more := response.read1(count - len(piece))):
            piece += more
    except (OSError, http.client.HTTPException) as error:
        return bytes(piece), error
    return bytes(piece), None


@functools.cache
def _certificates() -> ssl.SSLContext:
    """Trusts what the environment names, or else the authorities that come with certifi, where it is installed."""
    if "SSL_CERT_FILE" in environ or "SSL_CERT_DIR" in environ or find_spec("certifi") is None:
        return ssl.create_default_context()
    import certifi

    return ssl.create_default_context(cafile=certifi.where())
