"""Checks a request's settings against the model, and makes a predicted answer into a start canvas."""

from collections.abc import Mapping
from typing import Any

from gesso.config import ModelShape
from gesso.diffusion.logits_processing import NEVER
from gesso.errors import OptionError
from gesso.generation import STRATEGIES, GenerationConfig, RequestOptions, generation_options
from gesso.text.output import CHANNEL, CHANNEL_END

LEAST_CANVAS = 4
_SHAPE = ("canvas_length", "mode", "canvas_width")
PREDICTION_STRENGTH = 0.3
"""Share of noise in a predicted answer, where no option says."""


def check_settings(
    config: GenerationConfig, shape: ModelShape, special: Mapping[str, int], asked: RequestOptions
) -> None:
    """Checks the settings that a model bounds.

    Args:
        shape: of the model that the settings are for.
        special: its tokenizer's special tokens.
        asked: what else the request asks for.

    Raises:
        OptionError: a setting that is impossible with this model.
    """
    if shape.mask_token_id is not None:
        check_masked(config, asked)
    if config.guidance_scale == 1 and asked.classifier is None:
        _refuse_interval(config)
    width = config.canvas_length or shape.canvas_length
    if width > shape.canvas_length:
        raise OptionError(
            f"canvas_length {width} is more than the model's {shape.canvas_length}", option="canvas_length"
        )
    if width < LEAST_CANVAS and width < shape.canvas_length:
        raise OptionError(f"canvas_length must be at least {LEAST_CANVAS}, got {width}", option="canvas_length")
    start = config.start_canvas
    if start is not None and len(start) % width:
        raise OptionError(
            f"start_canvas has {len(start)} tokens, no whole number of canvases of {width}", option="start_canvas"
        )
    if start is not None and not all(0 <= token < shape.vocab_size for token in start):
        raise OptionError(
            f"start_canvas has a token id outside the vocabulary of {shape.vocab_size}", option="start_canvas"
        )
    _check_tokens(config, shape)
    bounded = config.thinking_budget is not None or asked.thinking_share is not None
    if bounded and not (CHANNEL in special and CHANNEL_END in special):
        raise OptionError(
            "thinking_budget: this checkpoint has no tokens that open and close reasoning", option="thinking_budget"
        )


def _refuse_interval(config: GenerationConfig) -> None:
    """Refuses levels of a guidance that there is not; no checkpoint sets them."""
    for name in ("guidance_start", "guidance_end"):
        value = getattr(config, name)
        if value != generation_options()[name].default:
            message = f"{name} needs a guidance_scale other than 1 or a classifier, got {value:g}"
            raise OptionError(message, option=name)


def _check_tokens(config: GenerationConfig, shape: ModelShape) -> None:
    """Checks the token ids that a request names."""
    filling = (*config.eos_token_ids, config.pad_token_id)
    last = max((place for place, part in enumerate(config.canvas or ()) if part not in (None, *filling)), default=-1)
    for place, part in enumerate(config.canvas or ()):
        if part is not None and part >= shape.vocab_size:
            raise OptionError(f"canvas has token id {part}, the vocabulary has {shape.vocab_size}", option="canvas")
        if part in config.eos_token_ids and place < last and not config.ignore_eos:
            raise OptionError(
                f"canvas has token id {part}, which ends the answer, before its last token: leave that out, or set "
                "ignore_eos",
                option="canvas",
            )
    for sequence in config.probe or ():
        if max(sequence) >= shape.vocab_size:
            raise OptionError(
                f"probe has token id {max(sequence)}, the vocabulary has {shape.vocab_size}", option="probe"
            )
    for token in config.logit_bias:
        if token >= shape.vocab_size:
            raise OptionError(
                f"logit_bias names token {token}, the vocabulary has {shape.vocab_size}", option="logit_bias"
            )
    if sum(bias <= NEVER for bias in config.logit_bias.values()) == shape.vocab_size:
        raise OptionError("logit_bias keeps every token out", option="logit_bias")
    if config.min_new_tokens and not config.ignore_eos:
        kept_out = {token for token, bias in config.logit_bias.items() if bias <= NEVER}.union(config.eos_token_ids)
        if sum(token < shape.vocab_size for token in kept_out) == shape.vocab_size:
            raise OptionError("logit_bias keeps every token out but those that end an answer", option="logit_bias")


def start_predicted(
    options: Mapping[str, Any], others: Mapping[str, Any], defaults: GenerationConfig, shape: ModelShape
) -> tuple[dict[str, Any], int]:
    """Returns the options of a request whose canvases start from a predicted answer, and the canvases' width.

    Args:
        others: options that a prediction does not go with, by name.

    Raises:
        OptionError: one of them is given, or there are no whole canvases.
    """
    for name, value in others.items():
        if value:
            raise OptionError(f"prediction does not go with {name}", option="prediction")
    settings = defaults.override(**{name: options.get(name) for name in (*_SHAPE, *STRATEGIES)})
    if settings.mode == "ar" or settings.canvas_width != "full":
        what = "mode ar" if settings.mode == "ar" else f"canvas_width {settings.canvas_width}"
        raise OptionError(f"prediction starts whole canvases, which {what} does not have", option="prediction")
    started = {"strength": PREDICTION_STRENGTH, **{name: value for name, value in options.items() if value is not None}}
    if started["strength"] != 1:
        started = {**settings.stopping_options.for_given_text(sure=0.0), **started}
    return started, settings.canvas_length or shape.canvas_length


def check_masked(config: GenerationConfig, asked: RequestOptions) -> None:
    """Checks settings for a model of masks, which has no causal pass, and where what is decoded stays.

    Raises:
        OptionError: something is asked for that such a model cannot do.
    """
    if not config.sampler_options.fits_masks:
        raise OptionError(
            f"sampler {config.sampler} is made for uniform noise, and this model's noise is masks",
            option="sampler",
            hint="choose another sampler, such as low_confidence",
        )
    config.sampler_options.check_masked()
    causal = {
        "mode": config.mode != "canvas",
        "verify": config.verify != 0,
        "logprobs": config.logprobs is not None,
        "prompt_logprobs": asked.prompt_logprobs is not None,
    }
    for name, wanted in causal.items():
        if wanted:
            raise OptionError(f"{name} needs a causal pass, which a model of masked blocks does not have", option=name)
    noise = {"start_canvas": config.start_canvas, "strength": config.strength, "start_step": config.start_step}
    for name, value in noise.items():
        if value is not None:
            raise OptionError(f"{name} starts from a text under uniform noise; this model's is masks", option=name)
