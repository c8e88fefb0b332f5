"""A checkpoint's `tokenizer.json`, with the ids of the special tokens gesso looks for."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import tokenizers

from gesso.errors import CheckpointError, TextError


class Tokenizer:
    """Text to ids and back. Special tokens written in a chat template become their ids; nothing is added."""

    special: Mapping[str, int]
    special_ids: frozenset[int]

    def __init__(self, tokenizer: tokenizers.Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._pieces: dict[int, str] = {}
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        added = tokenizer.get_added_tokens_decoder()
        self.special = {token.content: index for index, token in added.items() if token.special}
        self.special_ids = frozenset(self.special.values())

    @classmethod
    def from_folder(cls, folder: Path) -> "Tokenizer":
        """Read `tokenizer.json`.

        Raises:
            CheckpointError: the file is missing or unreadable.
        """
        path = folder / "tokenizer.json"
        if not path.exists():
            raise CheckpointError(f"tokenizer.json is missing in {folder}")
        try:
            return cls(tokenizers.Tokenizer.from_file(str(path)))
        except Exception as error:  # the library raises bare Exception
            raise CheckpointError(f"{path} cannot be read: {error}") from None

    @property
    def size(self) -> int:
        """Number of tokens, special ones included."""
        return int(self._tokenizer.get_vocab_size(with_added_tokens=True))

    def encode(self, text: str) -> list[int]:
        """Token ids of `text`.

        Raises:
            TextError: the text holds half of a character (a surrogate), such as bytes that were no UTF-8.
        """
        if any("\ud800" <= c <= "\udfff" for c in text):
            raise TextError("the text is no valid Unicode: it holds bytes that are no UTF-8, or half a character")
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def decode(self, ids: Sequence[int]) -> str:
        """Text of `ids`, special tokens included."""
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=False))

    def piece(self, index: int) -> str:
        """The text of one token by itself, for showing a canvas."""
        if index not in self._pieces:
            self._pieces[index] = self.decode([index])
        return self._pieces[index]


class TokenIds(Tokenizer):
    """Stands in where a checkpoint has no tokenizer: prompts are ids, and texts are ids in angle brackets."""

    def __init__(self) -> None:
        self._pieces = {}
        self.special = {}
        self.special_ids = frozenset()

    @property
    def size(self) -> int:
        return 0

    def encode(self, text: str) -> list[int]:
        raise TextError(f"this checkpoint has no tokenizer.json to read {text[:20]!r} with; pass token ids")

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(f"<{index}>" for index in ids)
