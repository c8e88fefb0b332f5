"""Holds the settings that a server is started with."""

import re
from dataclasses import dataclass, field
from pathlib import Path

from gesso.errors import OptionError
from gesso.models.card import ModelCard
from gesso.server.connection import ConnectionLimits
from gesso.server.hosts import check_names

MEDIA_BODY_BYTES = 48 * 2**20
"""Bytes of a request that may hold images: one of the largest that is read, in base64."""
_HOST = re.compile(r"(\*\.)?[a-z0-9_-]+(\.[a-z0-9_-]+)*(:[0-9]{1,5})?")


@dataclass(frozen=True, slots=True)
class Settings:
    """Configures one server. Defaults are safe on a machine that others can reach."""

    served_model_name: str
    """The model's id; an adapter's is this with `:NAME` behind it."""
    card: ModelCard = field(default_factory=ModelCard)
    """What the model was measured to do; empty where nobody knows."""
    api_keys: tuple[str, ...] = ()
    """Any of them opens all paths; none needed where there are none."""
    cors_origins: tuple[str, ...] = ()
    """Origins whose pages may call the server; `*` for all."""
    allowed_hosts: tuple[str, ...] = ()
    """Names that requests may call the server by in `Host`; any where there are none."""
    drain_seconds: float = 10.0
    """How long running requests may go on after the signal to stop."""
    exit_on_failure: bool = False
    """Whether the process ends with code 1 once its engine has failed or hangs."""
    log_prompts: bool = False
    """Whether prompts stand in the access log."""
    max_body_bytes: int = 4 * 2**20
    """Bytes that a request's body may have; `MEDIA_BODY_BYTES` where it may hold images."""
    connections: ConnectionLimits = field(default_factory=ConnectionLimits)
    """Bounds of each client's connection, before its request is looked at."""
    max_images: int = 16
    """Images and clips of one request."""
    media_hosts: tuple[str, ...] = ()
    """Hosts that images are fetched from; see `Fetcher.hosts`."""
    media_folder: Path | None = None
    """Folder whose files a request may name by `file://`."""

    batch_folder: Path | None = None
    """Where `/v1/files` and `/v1/batches` keep what they are given; there are none without it."""
    batch_workers: int = 4
    """Lines of batches under way at once."""

    @property
    def has_lifespan(self) -> bool:
        """Says whether the application has work of its own, from its start to its end."""
        return self.batch_folder is not None

    def __post_init__(self) -> None:
        if not self.served_model_name:
            raise OptionError("the served model name must not be empty", option="served_model_name")
        if not all(key and key.isascii() and key.isprintable() and " " not in key for key in self.api_keys):
            raise OptionError("an API key must be printable ASCII without spaces, and not empty", option="api_key")
        check_names(self.allowed_hosts)
        if not 0 <= self.drain_seconds < float("inf"):
            raise OptionError(
                f"drain seconds must be a number of at least 0, got {self.drain_seconds}", option="drain_seconds"
            )
        if self.max_images < 0:
            raise OptionError(f"max images must be at least 0, got {self.max_images}", option="max_images")
        if self.batch_folder is not None and self.batch_folder.exists() and not self.batch_folder.is_dir():
            raise OptionError(f"--batch-folder: {self.batch_folder} is no folder", option="batch_folder")
        if self.batch_workers < 1:
            raise OptionError(f"batch workers must be at least 1, got {self.batch_workers}", option="batch_workers")
        for host in self.media_hosts:
            if not _HOST.fullmatch(host):
                raise OptionError(
                    f"--allow-media-url takes hosts such as example.org, *.example.org or example.org:81, got {host!r}",
                    option="allow_media_url",
                )
        if self.media_folder is not None and not self.media_folder.is_dir():
            raise OptionError(f"--allow-media-folder: {self.media_folder} is no folder", option="allow_media_folder")
        if self.max_body_bytes < 1:
            raise OptionError(
                f"the body limit must be at least 1 byte, got {self.max_body_bytes}", option="max_body_bytes"
            )
