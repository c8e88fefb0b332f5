"""Tells a person of the words in a prompt that a model with fixed words does not know."""

import re

from gesso.cli.session import note
from gesso.load_options import LoadOptions
from gesso.text.tokenizer import TokenIds, Tokenizer

SHOWN = 3
_BEFORE = ("", " ", "_")
"""What a token of a word may begin with."""
_WORD = re.compile(r"[^\W\d_]{3,}")


def spelled_words(text: str, tokenizer: Tokenizer | TokenIds) -> list[str]:
    """Returns the words of a text that a tokenizer of whole words spells, by letters or bytes, each once."""
    words = dict.fromkeys(_WORD.findall(text))
    return [word for word in words if all(_is_spelled(before + word, tokenizer) for before in _BEFORE)]


def _is_spelled(word: str, tokenizer: Tokenizer | TokenIds) -> bool:
    pieces = [tokenizer.piece(token).strip(" _") for token in tokenizer.encode(word)]
    return any(len(piece) == 1 or piece.startswith("<0x") for piece in pieces)


def note_spelled_words(text: str, load: LoadOptions, tokenizer: Tokenizer | TokenIds | None) -> None:
    """Says which words of a prompt the model has no token for, where it is one whose words are fixed, and names the
    model for them.

    Args:
        tokenizer: of the model; None where it is not here.
    """
    from gesso.models.card import read_card
    from gesso.models.hub import bundled, resolve

    # An adapter may have taught the words.
    if tokenizer is None or load.adapter is not None or load.model not in bundled():
        return
    card = read_card(resolve(load.model))
    if card is None or not card.model_for_other_words:
        return
    if words := spelled_words(text, tokenizer):
        shown = ", ".join(words[:SHOWN]) + (" ..." if len(words) > SHOWN else "")
        note(f"{load.model} has no tokens for these words: {shown}; for any word: --model {card.model_for_other_words}")
