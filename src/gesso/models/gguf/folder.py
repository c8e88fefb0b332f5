"""Gives a GGUF file the folder that a checkpoint is: config, tokenizer and template beside a link to the file.

It lies in the cache of `huggingface_hub`, is made once, and is small: the weights stay where they are.
"""

import hashlib
import shutil
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory

from gesso.errors import CheckpointError
from gesso.generation import GenerationConfig
from gesso.models import hf_config, hf_generation_config
from gesso.models.gguf.config import read_gguf_config
from gesso.models.gguf.file import metadata, table_beside, written_table
from gesso.models.gguf.tokenizer import read_gguf_tokenizer
from gesso.models.loading import GGUF
from gesso.models.saving import write_json

STOPS = ("<turn|>", "<|tool_response>")
"""Tokens that end an answer beside the end of a text, as the released checkpoint says."""


def gguf_folder(path: Path, *, progress: bool = False) -> Path:
    """Returns a folder from which the model in a GGUF file is loaded; makes it where there is none yet.

    Args:
        progress: say so on a terminal, for the published vocabulary takes half a minute.

    Raises:
        CheckpointError: the file cannot be used, or there is no cache for what is made of it.
        ConfigError: it describes an impossible model.
        OSError: the cache cannot be written.
    """

    name, path = path.stem, path.expanduser().resolve()
    stat = path.stat()
    key = hashlib.sha256(f"{path} {stat.st_size} {stat.st_mtime_ns}".encode()).hexdigest()[:16]
    folder = _place(f"{name}-{key}")
    if not (folder / GGUF).exists():
        from rich.console import Console

        told = f"reading config and tokenizer of {name}, once"
        with Console(stderr=True).status(told) if progress else nullcontext():
            _make(folder, path)
    return folder


def _place(name: str) -> Path:
    """Returns a folder of this name in the cache, an empty one where there was none."""
    from huggingface_hub import cached_assets_path

    try:
        return Path(cached_assets_path("gesso", "gguf", name))
    except (OSError, RuntimeError, ValueError) as error:
        message = f"no place for the config and tokenizer of a GGUF file: {error}"
        raise CheckpointError(message, hint="HF_HOME=FOLDER keeps them, and what is fetched, in another one") from None


def _make(folder: Path, path: Path) -> None:
    """Makes the folder beside its place and moves it there, whole: the ranks of one model may all do so at once."""
    with TemporaryDirectory(dir=folder.parent) as work:
        made = Path(work) / "made"
        made.mkdir()
        _fill(made, path)
        if not (folder / GGUF).exists():
            shutil.rmtree(folder, ignore_errors=True)
        try:
            made.rename(folder)
        except OSError:
            if not (folder / GGUF).exists():
                raise


def _fill(folder: Path, path: Path) -> None:
    config = read_gguf_config(path)
    tokenizer, special = read_gguf_tokenizer(path)
    ends = (config.eos_token_id, *(found for stop in STOPS if (found := tokenizer.token_to_id(stop)) is not None))
    defaults = GenerationConfig(pad_token_id=config.pad_token_id, eos_token_ids=ends)
    write_json(folder / "config.json", hf_config.write_config(config, "bfloat16"))
    settings = hf_generation_config.write_generation_config(defaults, config)
    write_json(folder / hf_generation_config.FILE, settings)
    write_json(folder / "tokenizer_config.json", special)
    tokenizer.save(str(folder / "tokenizer.json"))
    template = metadata(path, "tokenizer.chat_template")
    if isinstance(template, str):
        (folder / "chat_template.jinja").write_text(template, encoding="utf-8")
    write_json(table_beside(folder / GGUF), written_table(path))
    (folder / GGUF).symlink_to(path)
