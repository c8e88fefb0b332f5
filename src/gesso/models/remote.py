"""Asks the Hugging Face Hub which files a checkpoint has, how large they are and what their checksums are."""

import re
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from gesso.errors import HubError
from gesso.models.gguf.names import is_gguf
from gesso.models.hub import NESTED, WANTED, hub_errors, repository

WEIGHTS = "*.safetensors"
_SUM = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """Describes a file on the Hub."""

    name: str
    bytes: int
    blob: str
    """Git's name of a small file's content: SHA-1 of a header and the bytes."""
    sha256: str | None
    """SHA-256 of a large file's bytes; None where git itself holds the file."""

    @property
    def sum(self) -> str:
        """Returns the checksum that the Hub names the content by."""
        return self.sha256 or self.blob

    @property
    def holds_weights(self) -> bool:
        return fnmatch(self.name, WEIGHTS)


@dataclass(frozen=True, slots=True)
class HubModel:
    """Describes a checkpoint on the Hub, as it is at one commit."""

    name: str
    """Name as it was asked for: `org/name`, with `@revision` where one was given."""
    repo: str
    revision: str | None
    commit: str
    files: tuple[RemoteFile, ...]


def instead_of_pull(gguf: str) -> str:
    """Returns what to do with a GGUF file in a repository, `org/name/FILE.gguf[@revision]`."""
    return f"a GGUF file is fetched by the command that reads it: gesso quantize {gguf} --to int8 --out FOLDER"


def look_up(name: str) -> HubModel:
    """Returns what the Hub has of a model.

    Args:
        name: a Hugging Face id, `org/name[@revision]`.

    Raises:
        HubError: there is no such model, it cannot be asked for, or it has no safetensors weights.
    """
    repo, revision = repository(name)
    from huggingface_hub import HfApi, constants

    if constants.HF_HUB_OFFLINE:
        raise HubError(f"offline mode is on (HF_HUB_OFFLINE): {name} cannot be fetched")
    with hub_errors(repo, revision):
        found = HfApi().model_info(repo, revision=revision, files_metadata=True, timeout=30)
        files = list[RemoteFile]()
        for entry in found.siblings or ():
            wanted = any(fnmatch(entry.rfilename, pattern) for pattern in WANTED)
            if not wanted or any(fnmatch(entry.rfilename, pattern) for pattern in NESTED):
                continue
            if not isinstance(entry.size, int) or entry.blob_id is None or found.sha is None:
                raise HubError(f"the Hub does not say how large {entry.rfilename} of {repo} is: it cannot be checked")
            large = entry.lfs.sha256 if entry.lfs is not None else None
            if not _SUM.fullmatch(large or entry.blob_id):
                raise HubError(f"the Hub's checksum of {entry.rfilename} of {repo} is none: it cannot be checked")
            files.append(RemoteFile(entry.rfilename, entry.size, entry.blob_id, large))
    known = {file.name: file for file in files}
    if "config.json" not in known or not any(file.holds_weights for file in files):
        gguf = sorted(entry.rfilename for entry in found.siblings or () if is_gguf(Path(entry.rfilename)))
        raise HubError(
            f"{name} holds no config.json with safetensors weights: gesso pull fetches nothing else",
            hint=instead_of_pull(f"{repo}/{gguf[0]}{name.removeprefix(repo)}") if gguf else None,
        )
    return HubModel(name, repo, revision, str(found.sha), tuple(sorted(known.values(), key=lambda file: file.name)))
