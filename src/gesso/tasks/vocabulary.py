"""Builds the bundled model's tokenizer by hand: a Unigram model whose pieces are the words of the tasks.

A space is written `▁` inside pieces. Every piece costs about the same, so the segmentation with the fewest
pieces wins; where two have equally many, punctuation takes the space that follows it (`,▁` `fig`, not `,`
`▁fig`). Hence a word has the same token in a comma-separated list whether it stands first or later, in a
prompt or in an answer. Digits are always single. What no piece covers is spelled in UTF-8 bytes, so every
text without a `▁` of its own survives `decode(encode(text), skip_special_tokens=False)`.
"""

from collections.abc import Iterable

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers

from gesso.tasks.words import (
    CITIES,
    NAME_NOUNS,
    NAME_VERBS,
    NUMBER_WORDS,
    OPPOSITES,
    POOL,
    TEMPLATE_WORDS,
)

SPECIAL_TOKENS: tuple[str, ...] = (
    "<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "<|turn>", "<turn|>", "<|channel>", "<channel|>",
    "<|think|>", "<|tool>", "<tool|>", "<|tool_call>", "<tool_call|>", "<|tool_response>", "<tool_response|>",
    '<|"|>', "<|image>", "<image|>", "<|image|>",
)  # fmt: skip
"""Special tokens in the order of their ids, from 0."""

_SPACE = "▁"
_CHARACTERS = (*(chr(code) for code in range(0x21, 0x7F)), _SPACE, "\n")
_GLUE = (
    # Lists and sentences.
    ", ", ": ", ' "',
    # JSON.
    '{"', '": "', '": ', '", "', ', "', '"}',
    # Code.
    "\n    ", "\n        ", "(x):", "(x, y):", "(x, y)", "(x)", "(x, ", " x",
    " + ", " - ", " * ", " // ", " % ",
    " > ", " < ", " >= ", " <= ", " == ", " = ", " -x", "[0]", "[-1]", "[::-1]",
    # The frame of a chat.
    "user\n", "model\n", "system\n", "thought\n",
)  # fmt: skip
_PIECE_SCORE = -10.0
# Far below any spelling in characters, so that the text "<0x41>" does not become the letter A.
_NEVER_SCORE = -1000.0
_TRAILING_SPACE_BONUS = 0.5
# Scores all differ, by less than the bonus in sum over any competing segmentation.
_TIE_BREAK = 1e-6


def build_tokenizer() -> Tokenizer:
    """Returns the tokenizer; the same one, id for id, on every call."""
    return tokenizer_of(pieces())


def tokenizer_of(pieces: Iterable[str]) -> Tokenizer:
    """Returns a tokenizer of the special tokens, all bytes, all signs and these pieces, in the order of their ids."""
    texts = (piece.replace(" ", _SPACE) for piece in pieces)
    never = [*SPECIAL_TOKENS, *(f"<0x{byte:02X}>" for byte in range(256))]
    vocabulary = [(piece, _NEVER_SCORE) for piece in never]
    for index, piece in enumerate(dict.fromkeys((*_CHARACTERS, *texts))):
        bonus = _TRAILING_SPACE_BONUS if piece.endswith(_SPACE) and len(piece) > 1 else 0.0
        vocabulary.append((piece, _PIECE_SCORE + bonus - _TIE_BREAK * index))
    unknown = SPECIAL_TOKENS.index("<unk>")
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=unknown, byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(" ", _SPACE)
    tokenizer.decoder = decoders.Sequence([decoders.Replace(_SPACE, " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL_TOKENS])
    return tokenizer


def pieces() -> list[str]:
    """Returns the pieces of ordinary text in the order of their ids."""
    tails = (*NUMBER_WORDS, *NAME_NOUNS, *(word for pair in OPPOSITES for word in pair))
    plain = (*POOL, *CITIES, *TEMPLATE_WORDS, *NAME_VERBS, *(word for pair in OPPOSITES for word in pair))
    return [
        *_GLUE,
        *_with_space(plain),
        *_with_space(word.upper() for word in POOL),
        *(f"_{word}" for word in tails),
    ]


def _with_space(words: Iterable[str]) -> list[str]:
    return [form for word in words for form in (word, _SPACE + word)]
