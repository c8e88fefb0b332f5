"""Addresses of images that a server may read: `https://` and `http://` of allowed hosts, `file://` of one folder.

A request names the address, so nothing of it is trusted. A host is looked up once, every address that it has must be
public, and the connection goes to one of those very addresses, so that no later answer of a name server matters; each
redirect passes the same gate. Size and time are bounded, and no proxy, cookie or header of this machine takes part.
"""

import http.client
import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

from gesso.errors import ImageError

SECONDS = 10.0
"""Seconds that fetching one image may take, redirects included."""
REDIRECTS = 3
PORTS = {"http": 80, "https": 443}
_PIECE = 1 << 16
Resolve = Callable[[str, int], Sequence[str]]
"""Host and port to the addresses that they have."""


def addresses_of(host: str, port: int) -> list[str]:
    """Returns the addresses that the system's resolver knows of a host."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


def is_public(address: str) -> bool:
    """Tells whether an address is one of the open internet, also where it hides an address of the older kind."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped is not None:
            return is_public(str(ip.ipv4_mapped))
        if ip.sixtofour is not None or ip.teredo is not None:
            return False
    return ip.is_global and not ip.is_multicast and not ip.is_reserved


@dataclass(frozen=True, slots=True)
class Fetcher:
    """Fetches what may be fetched, up to so many bytes and seconds."""

    hosts: tuple[str, ...] = ()
    """Allowed ones: `example.org`, `example.org:8443` for another port, `*.example.org` for all below it."""
    folder: Path | None = None
    """The folder whose files may be read; None for none."""
    seconds: float = SECONDS
    resolve: Resolve = addresses_of
    may_connect: Callable[[str], bool] = is_public

    def fetch(self, url: str, max_bytes: int) -> bytes:
        """Returns the bytes behind an address.

        Raises:
            ImageError: it is not allowed, not there, too large or too slow.
        """
        scheme = urlsplit_checked(url).scheme
        if scheme == "file":
            return self._from_folder(url, max_bytes)
        deadline = time.monotonic() + self.seconds
        for _ in range(REDIRECTS + 1):
            parts = self._allowed(url)
            answer = self._ask(parts, max_bytes, deadline)
            if isinstance(answer, bytes):
                return answer
            url = _redirected(url, answer)
        raise ImageError(f"the address leads from place to place more than {REDIRECTS} times")

    def _allowed(self, url: str) -> SplitResult:
        parts = urlsplit_checked(url)
        if parts.scheme not in PORTS:
            raise ImageError("the address must be a data URL, or begin with https:// or http://")
        if parts.username is not None or parts.password is not None:
            raise ImageError("the address holds a name or a password: that is not supported")
        if not self._knows(parts.hostname or "", parts.port or PORTS[parts.scheme], parts.scheme):
            raise ImageError(f"this server fetches nothing from {(parts.hostname or '')[:100]!r}")
        return parts

    def _knows(self, host: str, port: int, scheme: str) -> bool:
        for allowed in self.hosts:
            name, colon, number = allowed.rpartition(":")
            name, known = (name, number) if colon and number.isdecimal() else (allowed, str(PORTS[scheme]))
            fits = host.endswith(name[1:]) if name.startswith("*.") else host == name
            if fits and host and known == str(port):
                return True
        return False

    def _ask(self, parts: SplitResult, max_bytes: int, deadline: float) -> bytes | str:
        """The body, or where a redirect leads."""
        host, port = parts.hostname or "", parts.port or PORTS[parts.scheme]
        address = self._address(host, port)
        left = deadline - time.monotonic()
        if left <= 0:
            raise ImageError(f"fetching the image takes more than {self.seconds:g} s")
        connection = _Pinned(host, port, address, left, tls=parts.scheme == "https")
        # A timeout of the socket bounds each read alone; whoever sends drop by drop is cut off by the clock.
        clock = threading.Timer(left, connection.cut)
        clock.daemon = True
        clock.start()
        try:
            path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            headers = {"User-Agent": "gesso", "Accept": "image/*, video/*", "Accept-Encoding": "identity"}
            connection.request("GET", path, headers=headers)
            response = connection.getresponse()
            if response.status in (301, 302, 303, 307, 308):
                return response.getheader("Location") or ""
            if response.status != 200:
                raise ImageError(f"{host} answers {response.status}")
            body = _body(response, max_bytes)
            if connection.overdue:
                raise TimeoutError
            return body
        except (OSError, http.client.HTTPException, ValueError) as error:
            if isinstance(error, ImageError):
                raise
            if connection.overdue or isinstance(error, TimeoutError):
                raise ImageError(f"fetching the image takes more than {self.seconds:g} s") from None
            raise ImageError(f"{host} cannot be reached: {type(error).__name__}") from None
        finally:
            clock.cancel()
            connection.close()

    def _address(self, host: str, port: int) -> str:
        try:
            found = list(self.resolve(host, port))
        except (OSError, UnicodeError):
            raise ImageError(f"{host[:100]!r} is no host that is known") from None
        if not found:
            raise ImageError(f"{host[:100]!r} is no host that is known")
        if not all(self.may_connect(address) for address in found):
            raise ImageError(f"{host[:100]!r} has an address that is not public: nothing is fetched from there")
        return found[0]

    def _from_folder(self, url: str, max_bytes: int) -> bytes:
        parts = urlsplit_checked(url)
        if self.folder is None:
            raise ImageError("this server reads no files")
        if parts.netloc not in ("", "localhost") or "\0" in unquote(parts.path):
            raise ImageError("the address of a file must read file:///FOLDER/NAME")
        try:
            path = Path(unquote(parts.path)).resolve(strict=True)
            inside = path.is_relative_to(self.folder.resolve()) and path.is_file()
            if inside:
                with path.open("rb") as file:
                    data = file.read(max_bytes + 1)
        except (OSError, RuntimeError):
            inside = False
        # Whether there is such a file elsewhere is nobody's business.
        if not inside:
            raise ImageError("there is no such file in the folder that this server reads")
        if len(data) > max_bytes:
            raise ImageError(f"the file has more than {max_bytes:,} bytes")
        return data


def urlsplit_checked(url: str) -> SplitResult:
    """Returns the parts of an address.

    Raises:
        ImageError: it is none.
    """
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise ImageError("the address of the image is none") from None
    return parts


def _redirected(url: str, location: str) -> str:
    try:
        if location:
            return urljoin(url, location)
    except ValueError:
        pass
    raise ImageError("the address redirects to one that is none")


def _body(response: http.client.HTTPResponse, max_bytes: int) -> bytes:
    pieces, size = [], 0
    while piece := response.read1(_PIECE):
        size += len(piece)
        if size > max_bytes:
            raise ImageError(f"the image has more than {max_bytes:,} bytes")
        pieces.append(piece)
    if response.length:
        raise http.client.IncompleteRead(b"", response.length)
    return b"".join(pieces)


class _Pinned(http.client.HTTPConnection):
    """A connection to one address of a host, whatever its name means by now."""

    def __init__(self, host: str, port: int, address: str, seconds: float, *, tls: bool) -> None:
        super().__init__(host, port, timeout=seconds)
        self.default_port = PORTS["https" if tls else "http"]  # which the Host header leaves out
        self._address = address
        self.overdue = False
        """Whether it was cut off."""
        self._held: socket.socket | None = None
        """`sock`, which the connection forgets as soon as the headers of its last answer are there."""
        self._tls = ssl.create_default_context() if tls else None

    def connect(self) -> None:
        self.sock = self._held = socket.create_connection((self._address, self.port), self.timeout)
        if self._tls is not None:
            self.sock = self._held = self._tls.wrap_socket(self.sock, server_hostname=self.host)

    def cut(self) -> None:
        """Break the connection off, from another thread."""
        self.overdue = True
        if self._held is not None:
            try:
                self._held.shutdown(socket.SHUT_RDWR)
            except OSError:
                return
