"""Encodes the texts of training data: how lines become examples, and the tokens of a text."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from gesso.config import ModelConfig
from gesso.errors import DataError, OptionError
from gesso.text.chat_template import ChatTemplate
from gesso.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class FileDataConfig:
    """Configures how lines become examples, and in which order they come.

    Raises:
        OptionError: an impossible value.
    """

    max_length: int
    """Tokens of prompt and answer together. Longer examples are left out; text is cut instead."""
    held_out: float = 0.0
    """Share of the lines kept for evaluation, chosen by a hash of each line."""
    thinking: Literal["keep", "strip"] = "keep"
    """keep: a turn with reasoning is prompted for with thinking on, and its reasoning is part of the answer."""
    raw_pairs: bool = False
    """Renders pairs without the chat template: bos and the prompt as it is, the completion as it is and eos."""
    bucketed: bool = True
    """Puts examples of like length into one batch."""
    seed: int = 0
    """Seed of the order alone; it decides nothing else."""

    def __post_init__(self) -> None:
        if self.max_length < 2:
            raise OptionError(f"max_length must be at least 2, got {self.max_length}", option="max_length")
        if not 0 <= self.held_out < 0.5:
            raise OptionError(f"held_out must be at least 0 and below 0.5, got {self.held_out}", option="held_out")
        if self.thinking not in ("keep", "strip"):
            raise OptionError(f"thinking {self.thinking!r} does not exist; known: keep, strip", option="thinking")
        if self.seed < 0:
            raise OptionError(f"seed must be at least 0, got {self.seed}", option="seed")


class DataEncoder:
    """Encodes texts for one model and one config. Its errors name neither file nor line."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        template: ChatTemplate | None,
        model: ModelConfig,
        stop_token_ids: Sequence[int],
        config: FileDataConfig,
    ) -> None:
        self.tokenizer = tokenizer
        self.template = template
        self.model = model
        self.stop_token_ids = frozenset(stop_token_ids)
        self.config = config
        self._images = frozenset(model.image_token_ids)
        texts = filter(None, map(tokenizer.piece, sorted(self.stop_token_ids)))
        self.stop = re.compile("|".join(map(re.escape, texts)) or r"(?!)")
        """Matches the tokens that end an answer in a rendered chat."""

    def encode(self, text: str) -> list[int]:
        """Returns the token ids of a text that the model can be trained on.

        Raises:
            DataError: the text holds an image, or a token outside the vocabulary.
        """
        ids = self.tokenizer.encode(text)
        if not self._images.isdisjoint(ids):
            raise DataError("the text holds the token of an image; only text is supported")
        if max(ids, default=0) >= self.model.vocab_size:
            raise DataError(f"token id {max(ids)} is outside the vocabulary of {self.model.vocab_size}")
        return ids

    def encode_after_bos(self, text: str) -> list[int]:
        """Returns the token ids of a text that bos is put before: one that the text itself begins with is left out.

        Raises:
            DataError: as for `encode`, or the text has no tokens.
        """
        ids = self.encode(text)
        ids = ids[1:] if ids[:1] == [self.model.bos_token_id] else ids
        if not ids:
            raise DataError("the text has no tokens")
        return ids
