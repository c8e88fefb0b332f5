"""Holds the settings that a router is started with."""

from dataclasses import dataclass, field

import httpx

from gesso.errors import OptionError
from gesso.server.connection import ConnectionLimits
from gesso.server.hosts import check_names


@dataclass(frozen=True, slots=True)
class RouterSettings:
    """Configures one router.

    Raises:
        OptionError: a value that is impossible.
    """

    replicas: tuple[str, ...] = ()
    """Addresses of the servers, without a path; those of spawned ones come later."""
    replica_api_key: str | None = None
    """What the servers ask for; without it they are sent what the client sent."""
    api_keys: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()
    cors_origins: tuple[str, ...] = ()
    rate_limit: float | None = None
    """Requests a minute of one key, or of one address where there are no keys."""
    slack: int = 4
    """Requests by which a server that holds a prefix may be ahead of the least busy one."""
    retries: int = 8
    """Times that a request is sent again without getting any further."""
    retry_seconds: float = 300.0
    """Seconds for which a request is sent again in any case where servers are lost under it."""
    wait_seconds: float = 60.0
    """How long a request waits for a server where none takes requests."""
    health_seconds: float = 2.0
    """Seconds between two looks at a server."""
    stall_seconds: float = 15.0
    """How long a server may take to answer a look, before it is lost and what it runs goes on elsewhere."""
    drain_seconds: float = 10.0
    max_body_bytes: int = 48 * 2**20
    connections: ConnectionLimits = field(default_factory=ConnectionLimits)

    @property
    def has_lifespan(self) -> bool:
        """Says that the application has work of its own: it looks after the servers."""
        return True

    def __post_init__(self) -> None:
        check_names(self.allowed_hosts)
        for url in self.replicas:
            check_address(url)
        if len(set(self.replicas)) < len(self.replicas):
            raise OptionError("--replicas: an address is given twice", option="replicas")
        for name in ("wait_seconds", "health_seconds", "stall_seconds"):
            if not 0 < getattr(self, name) < float("inf"):
                raise OptionError(f"{name} must be above 0, got {getattr(self, name)}", option=name)
        for name in ("drain_seconds", "retry_seconds"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise OptionError(f"{name} must be at least 0, got {getattr(self, name)}", option=name)
        if self.rate_limit is not None and not 0 < self.rate_limit < float("inf"):
            raise OptionError(f"rate_limit must be above 0, got {self.rate_limit}", option="rate_limit")
        for name in ("slack", "retries"):
            if getattr(self, name) < 0:
                raise OptionError(f"{name} must be at least 0, got {getattr(self, name)}", option=name)
        if not all(key and key.isascii() and key.isprintable() and " " not in key for key in self.api_keys):
            raise OptionError("an API key must be printable ASCII without spaces, and not empty", option="api_key")


def check_address(url: str) -> None:
    """Checks the address of a server.

    Raises:
        OptionError: it is none, or has a path.
    """
    try:
        parsed = httpx.URL(url)
        good = parsed.scheme in ("http", "https") and bool(parsed.host) and parsed.path in ("", "/")
        good = good and 0 < (parsed.port or 80) < 2**16
    except httpx.InvalidURL:
        good = False
    if not good:
        raise OptionError(f"--replicas takes addresses such as http://10.0.0.5:8000, got {url!r}", option="replicas")
