"""Reads a checkpoint's `tokenizer.json`, with the ids of the special tokens gesso looks for."""

import functools
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tokenizers

from gesso.errors import CheckpointError, TextError

_PROBES = (*(256 * c for c in "ax 0.\n"), 128 * "a" + "!", 128 * "x" + "y", 128 * " " + "a", 64 * "0" + ".", 64 * "aB ")
"""Texts that are encoded once at load: expressions that take exponentially many steps mostly do so on runs."""
ASSUMED_CHARACTERS = 256
"""Characters that a token is taken to cover where nothing bounds them."""
BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
"""How a token that is one byte is spelled where a vocabulary falls back to bytes."""
HALF = "\ufffd"
"""What a part of a character decodes to."""
LONG_TEXT = 4096
"""Characters from which a text takes long enough to hold up other threads."""


class Tokenizer:
    """Encodes text to ids and decodes them. Special tokens written in a chat template become their ids; nothing is
    added."""

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
        """Reads `tokenizer.json`.

        Raises:
            CheckpointError: the file is missing or unreadable, or its expression for cutting a text into words gives up
                on a plain one.
        """
        path = folder / "tokenizer.json"
        if not path.exists():
            raise CheckpointError(f"tokenizer.json is missing in {folder}")
        try:
            found = cls(tokenizers.Tokenizer.from_file(str(path)))
            for text in _PROBES:
                found.encode(text)
        except TextError as error:
            raise CheckpointError(f"{path} cannot be used: {error}") from None
        except BaseException as error:  # the library raises bare Exception, and its panics are none
            if not isinstance(error, Exception) and not _is_panic(error):
                raise
            raise CheckpointError(f"{path} cannot be read: {error}") from None
        return found

    @property
    def size(self) -> int:
        """Returns the number of tokens, special ones included."""
        return int(self._tokenizer.get_vocab_size(with_added_tokens=True))

    @functools.cached_property
    def max_characters(self) -> int:
        """Returns the characters of a text that one of its tokens covers at most.

        It is the length of the longest token, where the tokenizer maps every character to tokens. One that drops
        characters, or takes many unknown ones for one token, may cover any number: it is taken to cover
        `ASSUMED_CHARACTERS`.
        """
        if not covers_all(self._tokenizer):
            return ASSUMED_CHARACTERS
        return max(map(len, self._tokenizer.get_vocab(with_added_tokens=True)))

    def encode(self, text: str) -> list[int]:
        """Returns the token ids of `text`.

        Raises:
            TextError: the text holds half of a character (a surrogate), such as bytes that were no UTF-8, or the
                tokenizer's expression for cutting it into words gives up on it.
        """
        if any("\ud800" <= c <= "\udfff" for c in text):
            raise TextError("the text is no valid Unicode: it holds bytes that are no UTF-8, or half a character")
        try:
            if len(text) < LONG_TEXT:
                return list(self._tokenizer.encode(text, add_special_tokens=False).ids)
            # A batch of one gives the interpreter's lock away, so that other threads go on meanwhile.
            return list(self._tokenizer.encode_batch([text], add_special_tokens=False)[0].ids)
        except BaseException as error:
            if not _is_panic(error):
                raise
            raise TextError(f"the tokenizer gives up on the text: {error}") from None

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of `ids`, special tokens included."""
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=False))

    def piece(self, index: int) -> str:
        """Returns the text of one token by itself, for showing a canvas."""
        if index not in self._pieces:
            self._pieces[index] = self.decode([index])
        return self._pieces[index]

    def special_piece(self, ids: Sequence[int]) -> str | None:
        """Returns the first special token among `ids`, as text; None where there is none."""
        return next((self.piece(index) for index in ids if index in self.special_ids), None)

    def piece_bytes(self, index: int) -> bytes:
        """Returns the bytes of one token by itself: those of `piece`, or the part of a character that the token is."""
        text = self.piece(index)
        spelled = self._tokenizer.id_to_token(index) if HALF in text else None
        if spelled is None:
            return text.encode()
        if match := BYTE.fullmatch(spelled):
            return bytes([int(match[1], 16)])
        bytes_of = byte_letters()
        return bytes(map(bytes_of.__getitem__, spelled)) if bytes_of.keys() >= set(spelled) else text.encode()


@functools.cache
def byte_letters() -> Mapping[str, int]:
    """Returns the letter that stands for each byte in byte-level vocabularies: itself where it can be seen."""
    seen = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = (chr(code) for code in range(0x100, 0x200))
    return {chr(byte) if byte in seen else next(hidden): byte for byte in range(256)}


def _is_panic(error: BaseException) -> bool:
    """Whether the library's Rust code panicked: a BaseException whose class cannot be imported."""
    return type(error).__name__ == "PanicException" and type(error).__module__.startswith("pyo3")


def covers_all(tokenizer: tokenizers.Tokenizer) -> bool:
    """Says whether every character of a text makes tokens, and no token stands for more characters than it is long."""
    model, added = tokenizer.model, tokenizer.get_added_tokens_decoder().values()
    steps = [*_steps(tokenizer.normalizer), *_steps(tokenizer.pre_tokenizer)]
    if isinstance(model, tokenizers.models.BPE):
        falls_back = bool(model.byte_fallback)
    else:  # the library tells of a Unigram model's in its JSON alone, at the end
        falls_back = (
            isinstance(model, tokenizers.models.Unigram) and b'"byte_fallback":true' in model.__getstate__()[-64:]
        )
    return (
        (falls_back or any(step["type"] == "ByteLevel" for step in steps))
        and all(_keeps_characters(step) for step in steps)
        and not any(token.lstrip or token.rstrip for token in added)
    )


def _steps(part: Any) -> list[dict[str, Any]]:
    """The steps of a normalizer or a pre-tokenizer, as its JSON says."""
    if part is None:
        return []
    step = json.loads(part.__getstate__())
    return list(step.get("normalizers") or step.get("pretokenizers") or [step])


def _keeps_characters(step: Mapping[str, Any]) -> bool:
    if step["type"] == "Replace":
        pattern = step.get("pattern", {}).get("String")
        return pattern is not None and len(step["content"]) >= len(pattern)
    if step["type"] == "Split":
        return str(step.get("behavior")) != "Removed"
    return step["type"] in ("ByteLevel", "Metaspace", "Prepend", "Digits", "Lowercase", "NFD", "NFKD")


class TokenIds(Tokenizer):
    """Stands in where a checkpoint has no tokenizer: prompts are ids, and texts are ids in angle brackets."""

    def __init__(self) -> None:
        self._pieces = {}
        self.special = {}
        self.special_ids = frozenset()

    @property
    def size(self) -> int:
        return 0

    @functools.cached_property
    def max_characters(self) -> int:
        return ASSUMED_CHARACTERS

    def encode(self, text: str) -> list[int]:
        raise TextError(f"this checkpoint has no tokenizer.json to read {text[:20]!r} with; pass token ids")

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(f"<{index}>" for index in ids)
