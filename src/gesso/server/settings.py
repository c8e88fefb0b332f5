"""Holds the settings that a server is started with."""

from dataclasses import dataclass, field

from gesso.errors import OptionError
from gesso.server.connection import ConnectionLimits


@dataclass(frozen=True, slots=True)
class Settings:
    """Configures one server. Defaults are safe on a machine that others can reach."""

    served_model_name: str
    """The model's id; an adapter's is this with `:NAME` behind it."""
    api_keys: tuple[str, ...] = ()
    """Any of them opens all paths; none needed where there are none."""
    cors_origins: tuple[str, ...] = ()
    """Origins whose pages may call the server; `*` for all."""
    allowed_hosts: tuple[str, ...] = ()
    """Names that requests may call the server by in `Host`; any where there are none."""
    drain_seconds: float = 10.0
    """How long running requests may go on after the signal to stop."""
    log_prompts: bool = False
    """Whether prompts stand in the access log."""
    max_body_bytes: int = 4 * 2**20
    connections: ConnectionLimits = field(default_factory=ConnectionLimits)

    def __post_init__(self) -> None:
        if not self.served_model_name:
            raise OptionError("the served model name must not be empty", option="served_model_name")
        if not all(key and key.isascii() and key.isprintable() and " " not in key for key in self.api_keys):
            raise OptionError("an API key must be printable ASCII without spaces, and not empty", option="api_key")
        if not all(host and host.isprintable() and not set(host) & set(" /") for host in self.allowed_hosts):
            raise OptionError(
                "an allowed host must be a name or an address, without a port or a path", option="allowed_hosts"
            )
        if not 0 <= self.drain_seconds < float("inf"):
            raise OptionError(
                f"drain seconds must be a number of at least 0, got {self.drain_seconds}", option="drain_seconds"
            )
        if self.max_body_bytes < 1:
            raise OptionError(
                f"the body limit must be at least 1 byte, got {self.max_body_bytes}", option="max_body_bytes"
            )
