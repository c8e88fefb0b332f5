"""A request's settings against the model that it is for."""

from collections.abc import Mapping

from gesso.config import ModelConfig
from gesso.errors import OptionError
from gesso.generation import GenerationConfig
from gesso.text.output import CHANNEL, CHANNEL_END

LEAST_CANVAS = 4


def check_settings(config: GenerationConfig, shape: ModelConfig, special: Mapping[str, int]) -> None:
    """
    Args:
        shape: of the model that the settings are for.
        special: its tokenizer's special tokens.

    Raises:
        OptionError: a setting that is impossible with this model.
    """
    width = config.canvas_length or shape.canvas_length
    if width > shape.canvas_length:
        raise OptionError(f"canvas_length {width} is more than the model's {shape.canvas_length}")
    if width < LEAST_CANVAS and width < shape.canvas_length:
        raise OptionError(f"canvas_length must be at least {LEAST_CANVAS}, got {width}")
    start = config.start_canvas
    if start is not None and len(start) % width:
        raise OptionError(f"start_canvas has {len(start)} tokens, no whole number of canvases of {width}")
    if start is not None and not all(0 <= token < shape.vocab_size for token in start):
        raise OptionError(f"start_canvas has a token id outside the vocabulary of {shape.vocab_size}")
    for part in config.canvas or ():
        if part is not None and part >= shape.vocab_size:
            raise OptionError(f"canvas has token id {part}, the vocabulary has {shape.vocab_size}")
    for sequence in config.probe or ():
        if len(sequence) > width:
            raise OptionError(f"probe has a sequence of {len(sequence)} tokens, the canvas {width}")
        if max(sequence) >= shape.vocab_size:
            raise OptionError(f"probe has token id {max(sequence)}, the vocabulary has {shape.vocab_size}")
    for token in config.logit_bias:
        if token >= shape.vocab_size:
            raise OptionError(f"logit_bias names token {token}, the vocabulary has {shape.vocab_size}")
    if config.thinking_budget is not None and not (CHANNEL in special and CHANNEL_END in special):
        raise OptionError("thinking_budget: this checkpoint has no tokens that open and close a thought")
