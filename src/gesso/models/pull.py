"""Brings a checkpoint from the Hugging Face Hub to this machine: into the Hub's cache, or into a folder.

`huggingface_hub` says what there is and lays the cache out. The weights' bytes are fetched here, because it starts a
file over after a break of the process, and looks at sizes alone.
"""

import glob
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha1, sha256
from pathlib import Path
from typing import Any, BinaryIO

from gesso.errors import HubError, OptionError
from gesso.file_lock import held_folder, hold
from gesso.models.byte_stream import RemoteBytes
from gesso.models.family import read_shape
from gesso.models.hub import INCOMING, fetch, hub_errors, resolve
from gesso.models.pull_folder import LOCK, close, incomplete, move_in, stale_files
from gesso.models.quantization.tiles import check_disk
from gesso.models.remote import HubModel, RemoteFile
from gesso.models.weight_index import INDEX, SINGLE, read_index

Progress = Callable[[int], None]
"""Is called with the number of bytes that have arrived since."""
TEXTS = ["*.json", "*.jinja", "tokenizer*"]
"""What a checkpoint has beside its weights."""
AGAIN = "once that has ended, the same command goes on"
PIECE = 1 << 22


def pull_texts(model: HubModel, out: Path | None = None) -> Path:
    """Fetches all but the weights, and checks it; returns the folder.

    Args:
        out: a folder to put it into, where what is right already stays; None for the Hub's cache.

    Raises:
        HubError: a file cannot be fetched, or differs from what the Hub says.
        CheckpointError: it is no model of ours.
        ConfigError: its config cannot be read.
    """
    texts = _texts(model)
    wanted = TEXTS if out is None else [glob.escape(file.name) for file in texts if not _is_right(out, file)]
    folder = out
    if folder is None or wanted:
        folder = fetch(model.repo, model.revision, wanted, offline=False, progress=False, out=out)
    for file in texts:
        _check_text(folder, file)
    read_shape(folder)
    return folder


def weight_files(model: HubModel, folder: Path) -> list[RemoteFile]:
    """Returns the weights' files that the model's index names, or else the single one, in order.

    Args:
        folder: where the index is, if the model has one.

    Raises:
        HubError: the Hub lacks one.
        CheckpointError: the index cannot be read.
    """
    known = {file.name: file for file in model.files}
    names = sorted(set(read_index(folder).values())) if INDEX in known else [SINGLE]
    for name in names:
        if name not in known:
            raise HubError(f"{model.name} lacks {name}: an incomplete upload")
    return [known[name] for name in names]


def remote_bytes(model: HubModel, file: RemoteFile) -> RemoteBytes:
    """Returns a file's bytes on the Hub, at the commit that was looked up."""
    from huggingface_hub import hf_hub_url
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

    with hub_errors(model.repo, model.revision):
        url = hf_hub_url(model.repo, file.name, revision=model.commit)
        headers = {key: value for key, value in build_hf_headers().items() if value is not None}
        return RemoteBytes(file.name, url, file.bytes, headers)


def pull_whole(model: HubModel, out: Path | None, progress: Progress = lambda taken: None) -> Path:
    """Fetches a checkpoint and compares every file with its checksum; returns the folder. The disk is asked for room
    before a weight is fetched.

    What is there already is compared and kept.

    Args:
        out: the folder to put it into, in the place of another revision that may be there; None for the Hub's cache,
            where `org/name` finds it.

    Raises:
        OptionError: too little room, or another process fetches the same.
        HubError, CheckpointError, ConfigError: as `pull_texts`; after a break the same call goes on where it was.
    """
    if out is not None:
        return _pull_into(model, out, progress)
    place = _blobs(model).absolute()
    targets = {place / file.sum: file for file in weight_files(model, pull_texts(model))}
    check_disk(place / "weights", _missing_bytes(targets), model.name)
    for target, file in targets.items():
        fetch_file(remote_bytes(model, file), file, target, progress)
    return resolve(model.name, progress=False)


def _pull_into(model: HubModel, out: Path, progress: Progress) -> Path:
    if out.exists() and not out.is_dir():
        raise OptionError(f"--out {out} is a file, and a checkpoint is a folder", option="out")
    out.mkdir(parents=True, exist_ok=True)
    with held_folder(out, f"{out} is being fetched by another process: {AGAIN}"):
        (out / INCOMING).mkdir(exist_ok=True)
        right = [file for file in _texts(model) if _is_right(out, file)]
        for file in right:
            shutil.copyfile(out / file.name, out / INCOMING / file.name)
        targets = {out.absolute() / file.name: file for file in weight_files(model, pull_texts(model, out / INCOMING))}
        stale = stale_files(model, out)
        freed = sum(path.lstat().st_size for path in stale)
        check_disk(out.absolute() / "weights", _missing_bytes(targets) - freed, f"--out {out}")
        if stale or len(right) < len(_texts(model)):
            close(out)
        for path in stale:
            path.unlink()
        for target, file in targets.items():
            fetch_file(remote_bytes(model, file), file, target, progress, lambda: close(out))
        move_in(model, out)
    return out


def _texts(model: HubModel) -> list[RemoteFile]:
    return [file for file in model.files if not file.holds_weights]


def _missing_bytes(targets: Mapping[Path, RemoteFile]) -> int:
    return sum(file.bytes - _there(target, file) for target, file in targets.items())


def fetch_file(
    remote: RemoteBytes,
    file: RemoteFile,
    target: Path,
    progress: Progress,
    changing: Callable[[], None] = lambda: None,
) -> None:
    """Fetches one file, going on from what there is of it, and compares it with its checksum before it gets its name.
    One process at a time does.

    Args:
        changing: is called before anything changes, where the file is not there and right already.

    Raises:
        HubError: it cannot be fetched, or differs.
        OptionError: another process fetches it.
        OSError: it cannot be written.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with _alone(target, file):
        _fetch(remote, file, target, progress, changing)


@contextmanager
def _alone(target: Path, file: RemoteFile) -> Iterator[None]:
    """Keeps other processes from a file while this one fetches it, where the system has such locks.

    Raises:
        OptionError: another process fetches it.
    """
    refusal = f"{file.name} is being fetched by another process: {AGAIN}"
    path = target.with_name(target.name + LOCK)
    with path.open("ab") as lock:
        hold(lock, refusal, "model")
        # Who ended between the two lines above removed the name of what is locked here, and another may hold the next.
        if not _names(path, lock):
            raise OptionError(refusal, option="model")
        try:
            yield
        finally:
            with suppress(PermissionError):  # Windows removes no file that is open
                path.unlink(missing_ok=True)


def _names(path: Path, file: BinaryIO) -> bool:
    """Says whether a path leads to an open file."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _fetch(
    remote: RemoteBytes, file: RemoteFile, target: Path, progress: Progress, changing: Callable[[], None]
) -> None:
    partial = incomplete(target, file)
    found = target.exists()
    if found and _summed(target, file, progress).hexdigest() == file.sum:
        partial.unlink(missing_ok=True)  # of a fetch that was broken off before another program brought the file
        return
    changing()
    if found:
        progress(-target.stat().st_size)
        target.unlink()
    total = _summed(partial, file, progress) if partial.exists() else _fresh(file)
    try:
        with partial.open("ab") as stream:
            for piece in remote.stream(stream.tell()):
                stream.write(piece)
                total.update(piece)
                progress(len(piece))
    except OSError as error:
        error.filename = str(partial)  # a disk that is full names none
        raise
    if total.hexdigest() != file.sum:
        partial.unlink()
        raise HubError(_damaged(file))
    os.replace(partial, target)


def _there(target: Path, file: RemoteFile) -> int:
    """Returns how many bytes of a file are on the disk."""
    found = (path.stat().st_size for path in (target, incomplete(target, file)) if path.exists())
    return max(found, default=0)


def _blobs(model: HubModel) -> Path:
    """Returns where the Hub's cache keeps the contents of a repository's files, by their checksums."""
    from huggingface_hub import constants
    from huggingface_hub.file_download import repo_folder_name

    return Path(constants.HF_HUB_CACHE) / repo_folder_name(repo_id=model.repo, repo_type="model") / "blobs"


def _is_right(folder: Path, file: RemoteFile) -> bool:
    """Says whether a file is there and has its checksum."""
    path = folder / file.name
    return path.is_file() and _summed(path, file, lambda taken: None).hexdigest() == file.sum


def _check_text(folder: Path, file: RemoteFile) -> None:
    if _is_right(folder, file):
        return
    path = folder / file.name
    path.resolve().unlink(missing_ok=True)  # in the Hub's cache a file is a link to its content
    path.unlink(missing_ok=True)
    raise HubError(_damaged(file))


def _damaged(file: RemoteFile) -> str:
    return (
        f"{file.name} arrived damaged: its checksum is not what the Hub says. It was removed; the same command again "
        "fetches it anew"
    )


def _fresh(file: RemoteFile) -> Any:
    if file.sha256 is not None:
        return sha256()
    return sha1(f"blob {file.bytes}\0".encode(), usedforsecurity=False)


def _summed(path: Path, file: RemoteFile, progress: Progress) -> Any:
    """Sums up what is there of a file."""
    total = _fresh(file)
    with path.open("rb") as stream:
        while piece := stream.read(PIECE):
            total.update(piece)
            progress(len(piece))
    return total
