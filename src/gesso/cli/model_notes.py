"""Says what a person should know of the model that answers, and chooses one by the prompt where nobody named it."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from gesso.cli.output import note
from gesso.errors import OptionError
from gesso.generation import engine_options
from gesso.generation.table import DENOISING, GUIDANCE, TOKENS
from gesso.load_options import LoadOptions
from gesso.text.tokenizer import Tokenizer
from gesso.text.untrained import untrained

if TYPE_CHECKING:
    from gesso.engine.engine import Engine

SEEING = "sight"
"""The bundled model with eyes."""
LARGE = 10**9
"""Active parameters of which a step over a whole canvas takes a CPU many seconds."""


def is_named(context: typer.Context) -> bool:
    """Tells whether the command line names a model."""
    source = context.get_parameter_source("model")
    return source is not None and source.name != "DEFAULT"


def suited(
    load: LoadOptions, text: str, *, named: bool, options: Iterable[str] = (), beside: str = "", alone: bool = True
) -> LoadOptions:
    """Returns what to load for a prompt, and says so where it is another model.

    A bundled model whose words and wordings are fixed says in its card which model takes any. That one answers a prompt
    with words that the first has no tokens for, or worded as the first was not trained, unless the first was asked for:
    by name, or by options of canvases, which are what it is good at. Then a remark names the other one.

    Args:
        named: whether somebody named the model, and it is not only a default.
        options: names of the request's options.
        beside: text that the prompt is about, of which only the words count.
        alone: whether there is no message beside the prompt.

    Raises:
        OptionError: the prompt has images, for which a model that sees must be named.
    """
    table, options = engine_options(), frozenset(options)
    if not named and (shown := options & {"images", "videos"}):
        raise OptionError(
            f"this model has no eyes: name one that sees, such as --model {SEEING}, which reads small drawn pictures",
            option=min(shown),
        )
    if named or any(table[name].group in (DENOISING, GUIDANCE, TOKENS) for name in options):
        note_other_words(load, text, beside, alone=alone)
    elif found := _other(load, text, beside, alone=alone):
        other, told = found
        note(f"{told}; {other} answers (--model {load.model} keeps {load.model})")
        return replace(load, model=other)
    return load


def note_other_words(load: LoadOptions, text: str, beside: str = "", *, alone: bool = True) -> None:
    """Says what of a prompt the model was not trained on, where its words and wordings are fixed, and which model takes
    it."""
    if found := _other(load, text, beside, alone=alone):
        other, told = found
        note(f"{told}; for any words: --model {other}")


def note_no_thinking(load: LoadOptions, options: Mapping[str, Any]) -> None:
    """Says where options ask a model to think that was not trained to."""
    from gesso.models.card import card_of
    from gesso.models.hub import bundled

    asked = options.get("thinking") and load.adapter is None
    if asked and load.model in bundled() and not card_of(load.model).thinks:
        note(f"{load.model} was not trained to think: its answer may be empty")


def note_slow_canvases(engine: "Engine", options: Mapping[str, Any]) -> None:
    """Says where canvases would take long, and nobody chose a mode: a large model on a CPU."""
    from gesso.config import ModelConfig
    from gesso.models.describe import parameters

    config = engine.config
    chosen = "mode" in options or engine.defaults.mode != "canvas"
    if chosen or engine.model.device.type != "cpu" or not isinstance(config, ModelConfig):
        return
    if (active := parameters(config)[1]) >= LARGE:
        note(
            f"{active / 1e9:.1f} B active parameters on a CPU: --mode auto writes token by token where that is quicker"
        )


def note_other_base(adapter: Path | str | None, model: str) -> None:
    """Says where an adapter was trained on another model than `model` (`gesso.models.other_base`)."""
    from gesso.models.other_base import other_base

    if adapter is not None and (told := other_base(Path(adapter), model)):
        note(f"gesso: warning: {told}")


def _other(load: LoadOptions, text: str, beside: str, *, alone: bool) -> tuple[str, str] | None:
    """The model that takes what this one was not trained on, and what there is to say of it; None where it was."""
    from gesso.models.card import read_card
    from gesso.models.hub import bundled, resolve

    # An adapter may have taught the words.
    if load.adapter is not None or load.model not in bundled():
        return None
    card = read_card(resolve(load.model))
    if card is None or not card.model_for_other_words:
        return None
    tokenizer = _tokenizer(load.model)
    if what := untrained(text, card.wordings, tokenizer, alone=alone) or untrained(beside, (), tokenizer):
        return card.model_for_other_words, f"{load.model} {what}"
    return None


@lru_cache(maxsize=2)
def _tokenizer(name: str) -> Tokenizer:
    from gesso.models.hub import resolve

    return Tokenizer.from_folder(resolve(name))
