"""Makes a tokenizer from the metadata of a GGUF file: Gemma's, a BPE over whole texts that falls back to bytes.

What stands around the vocabulary is not in such a file. It is the same for all of Gemma's tokenizers: spaces become
`SPACE`, and a text is cut behind each of them (`GemmaTokenizer` of transformers).
"""

from pathlib import Path

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers

from gesso.errors import CheckpointError
from gesso.models.gguf.file import metadata

MODEL = "gemma4"
SPACE = "\u2581"
CONTROL, USER_DEFINED = 3, 4
"""Kinds of tokens that are found in a text before all else."""
NAMES = {"bos_token": "bos", "eos_token": "eos", "pad_token": "padding", "unk_token": "unknown"}
"""Special tokens of `tokenizer_config.json`, and how a GGUF file calls their ids."""


def read_gguf_tokenizer(path: Path) -> tuple[tokenizers.Tokenizer, dict[str, str]]:
    """Reads the tokenizer of a GGUF file, and its special tokens by the names of `tokenizer_config.json`.

    Raises:
        CheckpointError: it is of another kind, or incomplete.
    """
    kind = metadata(path, "tokenizer.ggml.model")
    if kind != MODEL:
        raise CheckpointError(f"{path.name}: tokenizer.ggml.model is {kind!r}; gesso reads {MODEL!r}")
    tokens, kinds, merges = (metadata(path, f"tokenizer.ggml.{name}") for name in ("tokens", "token_type", "merges"))
    if not (isinstance(tokens, list) and isinstance(kinds, list) and isinstance(merges, list)):
        raise CheckpointError(f"{path.name}: the tokenizer is incomplete: it takes tokens, token_type and merges")
    if len(kinds) != len(tokens) or len(set(tokens)) != len(tokens):
        raise CheckpointError(f"{path.name}: the tokenizer is damaged: {len(tokens)} tokens, {len(kinds)} kinds")
    special = {}
    for name, called in NAMES.items():
        index = metadata(path, f"tokenizer.ggml.{called}_token_id")
        if not isinstance(index, int) or not 0 <= index < len(tokens):
            raise CheckpointError(f"{path.name}: tokenizer.ggml.{called}_token_id is {index!r}, which is no token")
        special[name] = tokens[index]
    # A merge is two tokens with one space between, and a token holds none.
    pairs = [tuple(merge.split(" ", 1)) for merge in merges]
    vocabulary = {token: index for index, token in enumerate(tokens)}
    try:
        model = models.BPE(vocabulary, pairs, unk_token=special["unk_token"], fuse_unk=True, byte_fallback=True)
    except Exception as error:  # noqa: BLE001 - the library raises bare Exception
        raise CheckpointError(f"{path.name}: the tokenizer is damaged: {error}") from None
    made = tokenizers.Tokenizer(model)
    made.normalizer = normalizers.Replace(" ", SPACE)
    made.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    made.decoder = decoders.Sequence([decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()])
    found = [(token, kind) for token, kind in zip(tokens, kinds, strict=True) if kind in (CONTROL, USER_DEFINED)]
    made.add_tokens([tokenizers.AddedToken(t, special=_is_marker(t, kind), normalized=False) for t, kind in found])
    return made, special


def _is_marker(token: str, kind: int) -> bool:
    """Says whether a token is no text. The files call some marks of a chat text, so that programs print them."""
    return kind == CONTROL or token.startswith("<|") or token.endswith("|>")
