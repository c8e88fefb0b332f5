"""Holds the settings that a router is started with."""

from dataclasses import dataclass

import httpx

from gesso.errors import OptionError
from gesso.options import option
from gesso.server.http_settings import HttpSettings
from gesso.server.settings import MEDIA_BODY_BYTES


@dataclass(frozen=True)
class RouterSettings(HttpSettings):
    """Configures one router.

    Raises:
        OptionError: a value that is impossible.
    """

    replicas: tuple[str, ...] = ()
    """Addresses of the servers, without a path; those of spawned ones come later."""
    replica_api_key: str | None = None
    """What the servers ask for; without it they are sent what the client sent."""
    rate_limit: float | None = option(
        None, "Requests a minute of one key, or of one address where there are no keys.", above=0
    )
    slack: int = option(
        4, "Requests by which a server that holds a prefix may be ahead of the least busy one.", minimum=0
    )
    retries: int = option(8, "Times that a request is sent again without getting any further.", minimum=0)
    retry_seconds: float = option(
        300.0, "How long a request is sent again in any case where servers are lost under it.", minimum=0, unit="s"
    )
    wait_seconds: float = option(
        60.0, "How long a request waits for a server where none takes requests.", above=0, unit="s"
    )
    health_seconds: float = option(2.0, "Time between two looks at a server.", above=0, unit="s")
    stall_seconds: float = option(
        15.0,
        "How long a server may take to answer a look, before it is lost and what it runs goes on elsewhere.",
        above=0,
        unit="s",
    )
    max_body_bytes: int = option(MEDIA_BODY_BYTES, "Bytes that a request's body may have.", minimum=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        for url in self.replicas:
            check_address(url)
        if len(set(self.replicas)) < len(self.replicas):
            raise OptionError("--replicas: an address is given twice", option="replicas")


def check_address(url: str) -> None:
    """Checks the address of a server.

    Raises:
        OptionError: it is none, or has more than a scheme, a host and a port.
    """
    try:
        parsed = httpx.URL(url)
        good = parsed.scheme in ("http", "https") and bool(parsed.host) and parsed.path in ("", "/")
        good = good and not (parsed.userinfo or parsed.query or parsed.fragment)
        good = good and 0 < (parsed.port or 80) < 2**16
        parsed.host.encode("idna")
    except (httpx.InvalidURL, UnicodeError):
        good = False
    if not good:
        raise OptionError(f"--replicas takes addresses such as http://10.0.0.5:8000, got {url!r}", option="replicas")
