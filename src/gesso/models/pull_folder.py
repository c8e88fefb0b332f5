"""Keeps a folder that a checkpoint is pulled into from being a mixture that loads, of two revisions say.

Life cycle: texts arrive in a folder of their own below it (`INCOMING`), where they are checked. `config.json`, without
which nothing loads, goes before anything else changes; then go the files that the new revision lacks, the weights
arrive, and the texts move in, `config.json` last. Where nothing differs, nothing goes.
"""

import os
import re
import shutil
from pathlib import Path

from gesso.models.hub import INCOMING
from gesso.models.remote import HubModel, RemoteFile

CONFIG = "config.json"
INCOMPLETE = ".gesso-incomplete"
"""Ends the name of a file that has not arrived whole."""
LOCK = ".gesso-lock"
"""Ends the name of the file that is locked while another is fetched."""
_OF_CHECKSUM = 16
"""Digits of a checksum that tell contents apart."""
_BESIDE = re.compile(rf"(.+?)(\.[0-9a-f]{{{_OF_CHECKSUM}}})?({re.escape(INCOMPLETE)}|{re.escape(LOCK)})")
_OF_CHECKPOINTS = re.compile(
    r"(config|generation_config|gesso|hf_quant_config|tokenizer|tokenizer_config|special_tokens_map|added_tokens"
    r"|chat_template|processor_config|preprocessor_config|video_preprocessor_config|model\.safetensors\.index)\.json"
    r"|chat_template\.jinja|tokenizer\.model|model(-\d{5}-of-\d{5})?\.safetensors"
)
"""Names of what belongs to a checkpoint. Other files in its folder are its owner's, and stay."""


def incomplete(target: Path, file: RemoteFile) -> Path:
    """Returns where the beginning of a file lies until it is whole: no revision goes on with the bytes of another."""
    of_contents = "" if target.name == file.sum else f".{file.sum[:_OF_CHECKSUM]}"  # as files of the Hub's cache are
    return target.with_name(f"{target.name}{of_contents}{INCOMPLETE}")


def stale_files(model: HubModel, folder: Path) -> list[Path]:
    """Returns the files of a checkpoint in a folder that the model on the Hub does not have."""
    known = {
        name
        for file in model.files
        for name in (file.name, file.name + LOCK, incomplete(folder / file.name, file).name)
    }
    files = (path for path in sorted(folder.iterdir()) if path.is_symlink() or path.is_file())
    return [path for path in files if path.name not in known and _OF_CHECKPOINTS.fullmatch(_whole_name(path))]


def _whole_name(path: Path) -> str:
    """Returns the name of a file without what says that it is incomplete or locked."""
    found = _BESIDE.fullmatch(path.name)
    return path.name if found is None else found[1]


def close(folder: Path) -> None:
    """Makes a folder one that does not load."""
    (folder / CONFIG).unlink(missing_ok=True)


def move_in(model: HubModel, folder: Path) -> None:
    """Moves the texts to their places, which makes the folder one that loads."""
    texts = [file.name for file in model.files if not file.holds_weights]
    for name in sorted(texts, key=lambda name: name == CONFIG):
        os.replace(folder / INCOMING / name, folder / name)
    shutil.rmtree(folder / INCOMING, ignore_errors=True)
