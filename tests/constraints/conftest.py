"""Tokenizers of three kinds."""

from pathlib import Path

import pytest
import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers

import gesso
from gesso.text.tokenizer import Tokenizer


@pytest.fixture(scope="session")
def mini() -> Tokenizer:
    return Tokenizer.from_folder(Path(gesso.__file__).parent / "bundled" / "mini")


@pytest.fixture(scope="session")
def fallback() -> Tokenizer:
    """Like Gemma's: pieces, spaces as `▁`, bytes for the rest; id 2 ends. An added token is plain text."""
    pieces = ["<pad>", "<unk>", "<end>", *(f"<0x{byte:02X}>" for byte in range(256))]
    pieces += ["a", "b", "ab", "▁", "▁a", "é", "b\n", "▁▁", 'a"', '"', "0", "1", "10", "<0x41>b", "日", "日本"]
    ids = {piece: index for index, piece in enumerate(pieces)}
    tokenizer = tokenizers.Tokenizer(models.BPE(ids, [], byte_fallback=True, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in pieces[:3]])
    tokenizer.add_tokens([AddedToken("b ab", special=False)])
    return Tokenizer(tokenizer)


@pytest.fixture(scope="session")
def byte_level() -> Tokenizer:
    """Like GPT-2's: every byte is a letter; the last id ends."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces = {piece: index for index, piece in enumerate([*letters, "Ġa", "ab", "Ã©", "æĹ"])}
    tokenizer = tokenizers.Tokenizer(models.BPE(pieces, []))
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken("<end>", special=True)])
    tokenizer.add_tokens([AddedToken("a b", special=False)])
    return Tokenizer(tokenizer)
