"""Tells what of a prompt a model was not trained on, where its words and its wordings are fixed."""

import re
from collections.abc import Iterator, Sequence
from itertools import islice

from gesso.text.tokenizer import Tokenizer

SHOWN, LONGEST = 3, 30
"""Words of a remark, and letters of each."""
_BEFORE = ("", " ", "_")
"""What a token of a word may begin with."""
_WORD = re.compile(r"[^\W\d_]{3,}")


def untrained(prompt: str, wordings: Sequence[str], tokenizer: Tokenizer, *, alone: bool = True) -> str:
    """Returns what a model was not trained on, as in "NAME has no tokens for these words: grelt"; empty for nothing.

    Args:
        wordings: regular expressions, of which the whole of a prompt matches one if it is worded as in training, white
            space around it aside; any wording will do where there are none.
        tokenizer: one of whole words, which spells all others.
        alone: whether the prompt is the whole conversation; fixed wordings are those of single messages.
    """
    trained = set(_WORD.findall(" ".join(wordings)))
    unknown = (word for word in spelled_words(prompt, tokenizer) if word not in trained)
    if words := list(islice(unknown, SHOWN + 1)):
        cut = [word if len(word) <= LONGEST else f"{word[:LONGEST]}..." for word in words[:SHOWN]]
        shown = ", ".join(cut) + (" ..." if len(words) > SHOWN else "")
        return f"has no tokens for these words: {shown}"
    if wordings and not any(re.fullmatch(wording, prompt.strip()) for wording in wordings):
        return "was not trained on this wording" if prompt.strip() else "was not trained to go without an instruction"
    if wordings and not alone:
        return "was trained on single messages, with no other and no system message before them"
    return ""


def spelled_words(text: str, tokenizer: Tokenizer) -> Iterator[str]:
    """Yields the words of a text that a tokenizer of whole words spells, by letters or bytes, each once."""
    words = dict.fromkeys(_WORD.findall(text))
    return (word for word in words if all(_is_spelled(before + word, tokenizer) for before in _BEFORE))


def _is_spelled(word: str, tokenizer: Tokenizer) -> bool:
    pieces = [tokenizer.piece(token).strip(" _") for token in tokenizer.encode(word)]
    return any(len(piece) == 1 or piece.startswith("<0x") for piece in pieces)
