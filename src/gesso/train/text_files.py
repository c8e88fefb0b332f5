"""Writes what makes a folder of weights a model that reads and writes text."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import tokenizers

from gesso.models.saving import copy_text_files


class TextFiles(Protocol):
    """Adds what makes a folder of weights a model that reads and writes text."""

    def write(self, folder: Path) -> None:
        """Writes tokenizer, its config and the chat template."""


@dataclass(frozen=True, slots=True)
class NewText:
    """Writes the text files of a model that is trained from scratch."""

    tokenizer: Callable[[], tokenizers.Tokenizer]
    chat_template: str
    tokenizer_config: dict[str, str]

    def write(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.tokenizer().save(str(folder / "tokenizer.json"))
        config = json.dumps(self.tokenizer_config, indent=2) + "\n"
        (folder / "tokenizer_config.json").write_text(config, encoding="utf-8")
        (folder / "chat_template.jinja").write_text(self.chat_template, encoding="utf-8")


@dataclass(frozen=True, slots=True)
class CopiedText:
    """Copies the text files of the checkpoint that training starts from."""

    source: Path

    def write(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        copy_text_files(self.source, folder)
