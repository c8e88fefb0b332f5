"""Resolves a model's name to a folder on this machine: a local folder, a bundled model, or a Hugging Face id.

`huggingface_hub` does the fetching (resume, progress, tokens, `HF_HUB_OFFLINE`) and is imported only when it is
needed. What it raises is turned into one line that says what to do.
"""

import difflib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from gesso.errors import CheckpointError, GessoError, HubError
from gesso.json_files import read_json
from gesso.models import hf_config
from gesso.models.gguf.names import is_gguf
from gesso.models.run_folders import instead_of_checkpoint
from gesso.models.sdar import config as sdar_config
from gesso.models.weight_index import INDEX, SINGLE, read_index

HUB_ID = re.compile(r"(?P<repo>\w[\w.-]*/\w[\w.-]*)(?:@(?P<revision>[\w.][\w./-]*))?", re.ASCII)
HUB_GGUF = re.compile(
    r"(?P<repo>\w[\w.-]*/\w[\w.-]*)/(?P<file>\w[\w./-]*\.gguf)(?:@(?P<revision>[\w.][\w./-]*))?",
    re.ASCII | re.IGNORECASE,
)
"""A GGUF file in a repository, which has one for each number of bits."""
WANTED = ["*.json", "*.jinja", "*.safetensors", "tokenizer*"]
NESTED = ["*/*"]
"""Folders inside a repository hold the same weights in other formats."""
INCOMING = ".gesso-incoming"
"""Folder below one that a checkpoint is pulled into, which holds its texts until its weights are there."""
MODEL_TYPES = (hf_config.MODEL_TYPE, sdar_config.MODEL_TYPE)
LOG_IN = "log in with `hf auth login` or set HF_TOKEN"


@dataclass(frozen=True, slots=True)
class CachedModel:
    """Describes a complete checkpoint of a known family in the local Hugging Face cache."""

    name: str
    """What `resolve` takes: `org/name`, with `@revision` where it is not the main one."""
    path: Path
    bytes: int
    """Size on disk."""


def bundled() -> list[str]:
    """Returns the names of the models that ship in the package."""
    folder = _bundled_folder()
    return sorted(p.name for p in folder.iterdir() if (p / "config.json").is_file()) if folder.is_dir() else []


def resolve(name: str, *, offline: bool = False, progress: bool = True) -> Path:
    """Returns the folder that holds the model `name`.

    Args:
        name: a local folder or GGUF file, a name of `bundled()`, or a Hugging Face id `org/name[@revision]` or
            `org/name/FILE.gguf[@revision]`, tried in this order.
        offline: never use the network; `HF_HUB_OFFLINE=1` does the same.
        progress: show the download's progress bars.

    Raises:
        HubError: there is no such model, or it is not here and could not be fetched.
    """
    folder = local_path(name)
    if folder is not None and (folder / "config.json").is_file():
        return folder
    if folder is not None and folder.is_file() and is_gguf(folder):
        return _gguf_folder(folder, progress)
    if name in bundled():
        return _bundled_folder() / name
    if folder is not None:
        if (folder / INCOMING).is_dir():
            raise HubError(f"{name} is a download that is not finished: the same gesso pull goes on where it stopped")
        lack = "holds no config.json" if folder.is_dir() else "is a file"
        raise HubError(
            f"{name} {lack}: a checkpoint is a folder with config.json and safetensors weights, or a GGUF file",
            hint=instead_of_checkpoint(folder),
        )
    if file := HUB_GGUF.fullmatch(name):
        return _gguf_folder(_fetch_file(file["repo"], file["file"], file["revision"], offline, progress), progress)
    folder = fetch(*repository(name), WANTED, offline, progress)
    if _missing(folder):
        what = _what_to_do(offline) if offline else "run the same command again with network access"
        raise HubError(f"{_incomplete(name, folder)}; {what}")
    return folder


def resolve_config(name: str, *, offline: bool = False) -> Path:
    """Returns a folder that holds the `config.json` of the model `name`; nothing larger is fetched, weights may be
    missing.

    Raises:
        HubError: as `resolve`.
    """
    folder = local_path(name)
    here = folder is not None and (folder / "config.json").is_file()
    if name in bundled() or here or is_gguf(Path(name)) or HUB_GGUF.fullmatch(name):
        return resolve(name, offline=offline)
    return fetch(*repository(name), ["config.json"], offline, progress=False)


def repository(name: str) -> tuple[str, str | None]:
    """Returns the repository and the revision of a Hugging Face id.

    Raises:
        HubError: it is none.
    """
    match = HUB_ID.fullmatch(name)
    if match is None:
        raise HubError(_nothing_of_that_name(name))
    return match["repo"], match["revision"]


def cached() -> list[CachedModel]:
    """Returns the complete models of our type in the local Hugging Face cache, by name; broken entries are skipped."""
    from huggingface_hub import constants, scan_cache_dir
    from huggingface_hub.errors import CacheNotFound

    try:
        repos = scan_cache_dir(constants.HF_HUB_CACHE).repos
    except (CacheNotFound, ValueError, OSError, RuntimeError):  # the last where nobody knows a home
        return []
    found = []
    for repo in repos:
        for revision in repo.revisions if repo.repo_type == "model" else ():
            if not _is_ours(revision.snapshot_path) or _missing(revision.snapshot_path):
                continue
            reference = "main" if "main" in revision.refs else min(revision.refs, default=revision.commit_hash)
            name = repo.repo_id if reference == "main" else f"{repo.repo_id}@{reference}"
            found.append(CachedModel(name, revision.snapshot_path, revision.size_on_disk))
    return sorted(found, key=lambda model: model.name)


def local_path(name: str) -> Path | None:
    """Returns the file or folder of this name, `~` and all; None where there is none."""
    try:
        folder = Path(name).expanduser()
        return folder if name and folder.exists() else None
    except (OSError, RuntimeError):  # a name too long for a path, or a home that does not exist
        return None


def _bundled_folder() -> Path:
    return Path(str(files("gesso"))) / "bundled"


def _nothing_of_that_name(name: str) -> str:
    here = [*bundled(), *(model.name for model in cached())]
    by_last_part = {full.rpartition("/")[2]: full for full in reversed(here)}
    close = difflib.get_close_matches(name.rpartition("/")[2].lower(), by_last_part, n=2, cutoff=0.5)
    meant = f" (did you mean {' or '.join(by_last_part[last] for last in close)}?)" if close else ""
    return (
        f"no model {name!r}{meant}: a model is a local folder, a bundled name "
        f"({', '.join(bundled()) or 'none here'}) or a Hugging Face id (org/name)"
    )


def fetch(
    repo: str, revision: str | None, wanted: list[str], offline: bool, progress: bool, out: Path | None = None
) -> Path:
    """Returns a folder with the files of a repository that match `wanted`; fetches those that are not there.

    Args:
        out: the folder to put them into; None for the Hub's cache.

    Raises:
        HubError: they cannot be fetched.
    """
    from huggingface_hub import constants, snapshot_download

    offline = offline or bool(constants.HF_HUB_OFFLINE)
    with hub_errors(repo, revision, offline):
        return Path(
            snapshot_download(
                repo,
                revision=revision,
                allow_patterns=wanted,
                ignore_patterns=NESTED,
                local_dir=out,
                local_files_only=offline,
                tqdm_class=None if progress else _silent(),
            )
        )


def _fetch_file(repo: str, file: str, revision: str | None, offline: bool, progress: bool) -> Path:
    """Returns one file of a repository, in the Hub's cache; fetches it where it is not there.

    Raises:
        HubError: it cannot be fetched, or there is none.
    """
    from huggingface_hub import constants, errors, hf_hub_download

    offline = offline or bool(constants.HF_HUB_OFFLINE)
    with hub_errors(repo, revision, offline):
        try:
            bars = None if progress else _silent()
            return Path(hf_hub_download(repo, file, revision=revision, local_files_only=offline, tqdm_class=bars))
        except errors.RemoteEntryNotFoundError:
            raise HubError(f"{_name(repo, revision)} has no file {file}") from None


def _gguf_folder(file: Path, progress: bool) -> Path:
    from gesso.models.gguf.folder import gguf_folder

    return gguf_folder(file, progress=progress)


def _silent() -> Any:
    """Returns a class of progress bars that are not drawn."""
    from huggingface_hub.utils import tqdm  # type: ignore[attr-defined]

    class Silent(tqdm):
        def __init__(self, *args: object, **options: object) -> None:
            super().__init__(*args, **(options | {"disable": True}))  # type: ignore[no-untyped-call]

    return Silent


@contextmanager
def hub_errors(repo: str, revision: str | None, offline: bool = False) -> Iterator[None]:
    """Turns whatever `huggingface_hub` raises about a repository into a HubError of one line."""
    from huggingface_hub import errors

    try:
        yield
    except GessoError:
        raise
    except errors.GatedRepoError:
        raise HubError(f"{repo} is gated: accept its terms on its Hub page, then {LOG_IN}") from None
    except errors.RepositoryNotFoundError:
        raise HubError(
            f"{repo} is no local folder, and no public model on the Hugging Face Hub; if it is private, {LOG_IN}"
        ) from None
    except errors.RevisionNotFoundError:
        raise HubError(f"{repo} has no revision {revision or 'main'!r}") from None
    except errors.LocalEntryNotFoundError as error:
        raise HubError(_not_here(_name(repo, revision), offline, error)) from None
    except errors.HfHubHTTPError as error:
        status = getattr(error.response, "status_code", "unknown")
        hint = f"; {LOG_IN}" if status in (401, 403) else ": check the name" if status == 404 else "; try again later"
        raise HubError(f"the Hugging Face Hub refused {repo} (HTTP status {status}){hint}") from None
    except Exception as error:  # noqa: BLE001 - HTTP and transfer libraries below raise types of their own
        raise HubError(
            f"fetching {repo} failed ({_first_line(error)}); the same command again goes on where it stopped"
        ) from None


def _name(repo: str, revision: str | None) -> str:
    return repo if revision is None else f"{repo}@{revision}"


def _not_here(name: str, offline: bool, error: Exception) -> str:
    partial = getattr(error, "snapshot_path", None)
    state = (
        _incomplete(name, Path(partial))
        if partial
        else f"{name} is no local folder and not in the local Hugging Face cache"
    )
    return f"{state}; {_what_to_do(offline)}"


def _incomplete(name: str, folder: Path) -> str:
    first, *others = _missing(folder) or ["a file"]
    more = f" and {len(others)} more" if others else ""
    gguf = f"; of GGUF name the file, {name}/FILE.gguf" if name.lower().endswith("gguf") else ""
    return f"{name} lacks {first}{more}: an incomplete download, or no safetensors checkpoint{gguf}"


def _what_to_do(offline: bool) -> str:
    if offline:
        return "offline mode is on: fetch it once without (no --offline, no HF_HUB_OFFLINE)"
    return "the Hugging Face Hub cannot be reached: check the network and run the same command again"


def _is_ours(folder: Path) -> bool:
    try:
        return read_json(folder / "config.json").get("model_type") in MODEL_TYPES
    except (CheckpointError, OSError):
        return False


def _missing(folder: Path) -> list[str]:
    """Returns the files that a complete checkpoint would hold and this folder does not."""
    weights = [SINGLE]
    if (folder / INDEX).exists():
        try:
            weights = sorted(set(read_index(folder).values()))
        except (CheckpointError, OSError):
            weights = [f"{INDEX} (unreadable)"]
    return [name for name in ("config.json", *weights) if not (folder / name).is_file()]


def _first_line(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__
