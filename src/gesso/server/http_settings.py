"""Holds what a server and a router have in common: settings, and the layers that these put around an application."""

from dataclasses import dataclass, field

from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware

from gesso.errors import OptionError
from gesso.options import checked, option
from gesso.server.access_log import AccessLog, CountsRequests
from gesso.server.auth import ApiKeys
from gesso.server.connection import ConnectionLimits
from gesso.server.hosts import AllowedHosts, check_names
from gesso.telemetry.traces import Traces


@dataclass(frozen=True, kw_only=True)
class HttpSettings:
    """Configures a process that answers HTTP. Defaults are safe on a machine that others can reach.

    Raises:
        OptionError: a value that is impossible.
    """

    api_keys: tuple[str, ...] = ()
    """Any of them opens all paths; none needed where there are none."""
    cors_origins: tuple[str, ...] = ()
    """Origins whose pages may call the server; `*` for all."""
    allowed_hosts: tuple[str, ...] = ()
    """Names that requests may call the server by in `Host`; any where there are none."""
    drain_seconds: float = option(
        10.0, "How long running requests may go on after the signal to stop.", minimum=0, unit="s"
    )
    max_body_bytes: int = option(4 * 2**20, "Bytes that a request's body may have.", minimum=1)
    connections: ConnectionLimits = field(default_factory=ConnectionLimits)
    """Bounds of each client's connection, before its request is looked at."""

    def __post_init__(self) -> None:
        checked(self)
        check_names(self.allowed_hosts)
        if not all(key and key.isascii() and key.isprintable() and " " not in key for key in self.api_keys):
            raise OptionError("an API key must be printable ASCII without spaces, and not empty", option="api_key")


def outer_layers(settings: HttpSettings, metrics: CountsRequests, traces: Traces | None) -> list[Middleware]:
    """Returns the layers around an application, the outermost first: access log, hosts, origins, keys."""
    layers = [Middleware(AccessLog, metrics=metrics, traces=traces)]
    if settings.allowed_hosts:
        layers.append(Middleware(AllowedHosts, hosts=settings.allowed_hosts))
    if settings.cors_origins:
        cors = Middleware(
            CORSMiddleware,
            allow_origins=settings.cors_origins,
            allow_methods=["GET", "HEAD", "POST", "DELETE"],
            allow_headers=["*"],
            expose_headers=["X-Request-Id", "Retry-After"],
        )
        layers.append(cors)
    if settings.api_keys:
        layers.append(Middleware(ApiKeys, keys=settings.api_keys))
    return layers
