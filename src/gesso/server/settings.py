"""Holds the settings that a server is started with."""

import re
from dataclasses import dataclass, field
from pathlib import Path

from gesso.errors import OptionError
from gesso.models.card import ModelCard
from gesso.options import option
from gesso.server.http_settings import HttpSettings

MEDIA_BODY_BYTES = 48 * 2**20
"""Bytes of a request that may hold images: one of the largest that is read, in base64."""
_HOST = re.compile(r"(\*\.)?[a-z0-9_-]+(\.[a-z0-9_-]+)*(:[0-9]{1,5})?")


@dataclass(frozen=True)
class Settings(HttpSettings):
    """Configures one server. `max_body_bytes` are `MEDIA_BODY_BYTES` where bodies may hold images."""

    served_model_name: str
    """The model's id; an adapter's is this with `:NAME` behind it."""
    card: ModelCard = field(default_factory=ModelCard)
    """What the model was measured to do; empty where nobody knows."""
    exit_on_failure: bool = False
    """Whether the process ends with code 1 once its engine has failed or hangs."""
    log_prompts: bool = False
    """Whether prompts stand in the access log."""
    max_images: int = option(16, "Images and clips of one request.", minimum=0)
    media_hosts: tuple[str, ...] = ()
    """Hosts that images are fetched from; see `Fetcher.hosts`."""
    media_folder: Path | None = None
    """Folder whose files a request may name by `file://`."""

    batch_folder: Path | None = None
    """Where `/v1/files` and `/v1/batches` keep what they are given; there are none without it."""
    batch_workers: int = option(4, "Lines of batches under way at once.", minimum=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.served_model_name:
            raise OptionError("the served model name must not be empty", option="served_model_name")
        if self.batch_folder is not None and self.batch_folder.exists() and not self.batch_folder.is_dir():
            raise OptionError(f"--batch-folder: {self.batch_folder} is no folder", option="batch_folder")
        for host in self.media_hosts:
            if not _HOST.fullmatch(host):
                raise OptionError(
                    f"--allow-media-url takes hosts such as example.org, *.example.org or example.org:81, got {host!r}",
                    option="allow_media_url",
                )
        if self.media_folder is not None and not self.media_folder.is_dir():
            raise OptionError(f"--allow-media-folder: {self.media_folder} is no folder", option="allow_media_folder")
