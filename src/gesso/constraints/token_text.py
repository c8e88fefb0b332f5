"""Defines the bytes that each token adds to a text when a sequence is decoded."""

import json
from collections.abc import Callable
from typing import Any

from gesso.errors import TextError
from gesso.text.tokenizer import BYTE, Tokenizer, byte_letters

_CHECKED = 997
"""How many tokens are compared with what the tokenizer itself decodes."""


def token_bytes(tokenizer: Tokenizer) -> list[bytes | None]:
    """Returns of every id its bytes, None where it is special or not in use. Decoding joins them in order.

    Raises:
        TextError: there is no tokenizer, or its decoder does more than join pieces, so that no token has a text of
            its own.
    """
    if not tokenizer.size:
        raise TextError("a constraint needs a tokenizer, and this checkpoint has none")
    described = json.loads(tokenizer._tokenizer.to_str())
    spell = _speller(described["decoder"])
    vocabulary = tokenizer._tokenizer.get_vocab(with_added_tokens=True)
    plain = {token["content"] for token in described["added_tokens"] if not token["special"]}
    texts: list[bytes | None] = [None] * (max(vocabulary.values()) + 1)
    for piece, index in vocabulary.items():
        if index not in tokenizer.special_ids:
            texts[index] = _spell_added(piece, spell) if piece in plain else spell(piece)
    for index in range(0, len(texts), max(1, len(texts) // _CHECKED)):
        _check(tokenizer, index, texts[index])
    return texts


def _spell_added(piece: str, spell: Callable[[str], bytes]) -> bytes:
    """Added tokens are written as they read; a byte-level decoder leaves alone what is none of its letters."""
    try:
        return spell(piece)
    except KeyError:
        return piece.encode()


def _check(tokenizer: Tokenizer, index: int, text: bytes | None) -> None:
    if text is None:
        return
    decoded = tokenizer.decode([index])
    # A part of a character decodes to the replacement character.
    if decoded != text.decode(errors="replace") and "\ufffd" not in decoded:
        raise TextError(f"token {index} decodes to {decoded!r}, not to {text!r}: constraints need texts that just join")


def _speller(decoder: dict[str, Any] | None) -> Callable[[str], bytes]:
    """How the decoder of a `tokenizer.json` writes a piece."""
    parts = [] if decoder is None else decoder["decoders"] if decoder["type"] == "Sequence" else [decoder]
    kinds = [part["type"] for part in parts]
    if kinds == ["ByteLevel"]:
        letters = byte_letters()
        return lambda piece: bytes(letters[letter] for letter in piece)
    if set(kinds) <= {"Replace", "ByteFallback", "Fuse"} and "Fuse" in kinds:
        replacements = [(part["pattern"], part["content"]) for part in parts if part["type"] == "Replace"]
        if all("String" in pattern for pattern, _ in replacements):
            pairs = [(pattern["String"], content) for pattern, content in replacements]
            return lambda piece: _spell(piece, pairs, "ByteFallback" in kinds)
    what = " + ".join(kinds) or "none"
    raise TextError(f"constraints are not supported with this tokenizer's decoder ({what})")


def _spell(piece: str, replacements: list[tuple[str, str]], byte_fallback: bool) -> bytes:
    if byte_fallback and (match := BYTE.fullmatch(piece)):
        return bytes([int(match[1], 16)])
    for old, new in replacements:
        piece = piece.replace(old, new)
    return piece.encode()
