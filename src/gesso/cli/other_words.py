"""Chooses, where nobody named a model, the one that takes the words and the wording of a prompt."""

import re
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

import typer

from gesso.cli.session import note
from gesso.generation import engine_options
from gesso.generation.config import DENOISING, GUIDANCE, TOKENS
from gesso.load_options import LoadOptions
from gesso.text.tokenizer import Tokenizer

SHOWN = 3
_BEFORE = ("", " ", "_")
"""What a token of a word may begin with."""
_WORD = re.compile(r"[^\W\d_]{3,}")


def is_named(context: typer.Context) -> bool:
    """Tells whether the command line names a model."""
    source = context.get_parameter_source("model")
    return source is not None and source.name != "DEFAULT"


def suited(load: LoadOptions, text: str, *, named: bool, options: Iterable[str] = ()) -> LoadOptions:
    """Returns what to load for a prompt, and says so where it is another model.

    A bundled model whose words and wordings are fixed says in its card which model takes any. That one answers a prompt
    with words that the first has no tokens for, or worded as the first was not trained, unless the first was asked for:
    by name, or by options of canvases, which are what it is good at. Then a remark names the other one.

    Args:
        named: whether somebody named the model, and it is not only a default.
        options: names of the request's options.
    """
    table = engine_options()
    if named or any(table[name].group in (DENOISING, GUIDANCE, TOKENS) for name in options):
        note_other_words(load, text)
    elif found := _other(load, text):
        other, told = found
        note(f"{told}; {other} answers (--model {load.model} keeps {load.model})")
        return replace(load, model=other)
    return load


def note_other_words(load: LoadOptions, text: str) -> None:
    """Says what of a prompt the model was not trained on, where its words and wordings are fixed, and which model takes
    it."""
    if found := _other(load, text):
        other, told = found
        note(f"{told}; for any words: --model {other}")


def _other(load: LoadOptions, text: str) -> tuple[str, str] | None:
    """The model that takes what this one was not trained on, and what there is to say of it; None where it was."""
    from gesso.models.card import read_card
    from gesso.models.hub import bundled, resolve

    # An adapter may have taught the words.
    if load.adapter is not None or load.model not in bundled():
        return None
    card = read_card(resolve(load.model))
    if card is None or not card.model_for_other_words:
        return None
    trained = set(_WORD.findall(" ".join(card.wordings)))
    if words := [word for word in spelled_words(text, _tokenizer(load.model)) if word not in trained]:
        shown = ", ".join(words[:SHOWN]) + (" ..." if len(words) > SHOWN else "")
        return card.model_for_other_words, f"{load.model} has no tokens for these words: {shown}"
    if not card.takes(text):
        return card.model_for_other_words, f"{load.model} was not trained on this wording"
    return None


def spelled_words(text: str, tokenizer: Tokenizer) -> list[str]:
    """Returns the words of a text that a tokenizer of whole words spells, by letters or bytes, each once."""
    words = dict.fromkeys(_WORD.findall(text))
    return [word for word in words if all(_is_spelled(before + word, tokenizer) for before in _BEFORE)]


def _is_spelled(word: str, tokenizer: Tokenizer) -> bool:
    pieces = [tokenizer.piece(token).strip(" _") for token in tokenizer.encode(word)]
    return any(len(piece) == 1 or piece.startswith("<0x") for piece in pieces)


@lru_cache(maxsize=2)
def _tokenizer(name: str) -> Tokenizer:
    from gesso.models.hub import resolve

    return Tokenizer.from_folder(resolve(name))
