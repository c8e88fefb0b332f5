"""Checks the `Host` header: which names a request may call the server by.

A page of a stranger can have its own name resolve to the loopback and then talk to a server there as to itself. Such a
request still says the stranger's name.
"""

from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from gesso.errors import OptionError
from gesso.server.errors import ApiError

LOOPBACK = ("localhost", "127.0.0.1", "::1")
"""Names of a server that listens on the loopback."""
ANY = "*"


class AllowedHosts:
    """Lets a request pass whose `Host` is one of these names, at whatever port."""

    def __init__(self, app: ASGIApp, hosts: Sequence[str]) -> None:
        self._app = app
        self._hosts = {host.lower() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = Headers(scope=scope).getlist("host") if scope["type"] == "http" else []
        if scope["type"] != "http" or (len(given) == 1 and host_name(given[0]) in self._hosts):
            await self._app(scope, receive, send)
            return
        shown = ", ".join(given)[:80] or "none"
        error = ApiError(403, f"this server is not called {shown!r}; see --allowed-hosts", code="host_not_allowed")
        await error.response(scope["path"])(scope, receive, send)


def check_names(hosts: Sequence[str]) -> None:
    """Checks the names that a server may be called by.

    Raises:
        OptionError: one has a port or a path, or is none.
    """
    for host in hosts:
        # One colon has a port behind it; an IPv6 address has more.
        if not host or not host.isprintable() or set(host) & set(" /") or host.count(":") == 1:
            raise OptionError(
                f"an allowed host must be a name or an address, without a port or a path, got {host!r}",
                option="allowed_hosts",
            )


def host_name(header: str) -> str:
    """Returns the name of a `Host` header in small letters, without port and brackets."""
    text = header.strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0]
