"""Refuses settings of a request that contradict each other. Configs are `GenerationConfig`s, which import this."""

from collections.abc import Mapping
from typing import Any

from gesso.errors import OptionError
from gesso.generation.strategies import STRATEGIES

CONSTRAINTS = ("regex", "json_schema", "json_object", "choices", "grammar")
OF_A_CANVAS = ("start_canvas", "canvas", "probe")
"""Options that say what stands on a canvas, or ask about one."""
OF_DENOISING = (*STRATEGIES, "restart_steps", "canvas_width", "stop_at_end")
"""Options that say how a canvas is denoised, beside those of strategies; bounds, which hold without one, are none."""


PENALTIES = {"frequency_penalty": 0.0, "presence_penalty": 0.0, "repetition_penalty": 1.0}
"""Options that penalise what stands before a token, and the value of each that does not."""
OF_LOGITS: Mapping[str, Any] = {"logit_bias": {}, **PENALTIES}
"""Options that change what is likeliest, where an exact verifier goes by what the model by itself finds so."""


def given_constraints(config: Any) -> list[str]:
    """Returns the names of the constraints that are given, of which there may be one at most."""
    return [name for name in CONSTRAINTS if getattr(config, name) is not None and getattr(config, name) is not False]


def refuse_contradictions(config: Any) -> None:
    """Checks the options of a config against each other; each has been checked by itself.

    Raises:
        OptionError: two contradict each other; the error carries the one to change.
    """
    ar, refused = config.mode == "ar", "must be left out"
    _check_verify(config)
    if config.guidance_scale != 1 and (ar or config.verify not in (0, "auto")):
        other = "with mode ar" if ar else "beside verify"
        raise OptionError(f"guidance_scale {refused} {other}, got {config.guidance_scale:g}", option="guidance_scale")
    if config.guidance_start <= config.guidance_end:
        message = f"guidance_start must be above guidance_end, {config.guidance_end:g}, got {config.guidance_start:g}"
        raise OptionError(message, option="guidance_start")
    if config.strength is not None and config.start_canvas is None:
        raise OptionError(f"strength {refused} without start_canvas, got {config.strength!r}", option="strength")
    if config.start_step is not None:
        _check_start_step(config, config.start_step)
    if config.canvas is not None and config.thinking_budget is not None:
        message = f"thinking_budget {refused} beside canvas, got {config.thinking_budget!r}"
        raise OptionError(message, option="thinking_budget")
    for name in OF_A_CANVAS:
        given = getattr(config, name) is not None
        if given and ar:
            raise OptionError(f"mode ar has no canvas: leave {name} out", option="mode")
        if given and name != "probe" and config.canvas_width != "full":
            message = f"canvas_width {config.canvas_width} does not go with {name}: widths would shift"
            raise OptionError(message, option="canvas_width")
    constraints = given_constraints(config)
    if len(constraints) > 1:
        message = f"{constraints[0]} and {constraints[1]} contradict: an answer has one constraint at most"
        raise OptionError(message, option=constraints[0])
    if config.min_new_tokens > config.max_new_tokens:
        message = f"min_new_tokens must be at most max_new_tokens, {config.max_new_tokens}, got {config.min_new_tokens}"
        raise OptionError(message, option="min_new_tokens")


def mode_of(config: Any, given: Mapping[str, Any]) -> str:
    """Returns the mode of a request: a checkpoint's `ar` gives way to options that need a canvas."""
    needs_canvas = _guided(given) or given.get("verify") or any(given.get(name) is not None for name in OF_A_CANVAS)
    own = "canvas" if config.mode == "ar" and needs_canvas else config.mode
    return str(given.get("mode") or own)


def gives_way(config: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what of a checkpoint's config gives way to what a request gives; that both are given is refused.

    Raises:
        OptionError: mode ar with what says how a canvas is denoised.
    """
    mode = mode_of(config, given)
    if mode == "ar":
        denoising = {*OF_DENOISING, *(name for registry in STRATEGIES.values() for name in registry.options())}
        if (name := next((name for name in given if name in denoising), None)) is not None:
            hint = None if "mode" in given else "the model has mode ar by itself: give mode canvas as well"
            raise OptionError(f"{name} must be left out with mode ar, which has no canvas", option=name, hint=hint)
    changes_logits = any(given.get(name) not in (None, neutral) for name, neutral in OF_LOGITS.items())
    biased = config.verify == "exact" and changes_logits
    unverified = _guided(given) or biased or given.get("mode") == "ar"
    changes: dict[str, Any] = {"verify": 0} if unverified and config.verify not in (0, "auto") else {}
    return changes if mode == config.mode else {**changes, "mode": mode}


def _guided(given: Mapping[str, Any]) -> bool:
    return given.get("guidance_scale") not in (None, 1)


def _check_verify(config: Any) -> None:
    refused = "must be left out"
    if config.mode == "ar" and isinstance(config.verify, int) and config.verify:
        raise OptionError(f"verify {refused} with mode ar, got {config.verify!r}", option="verify")
    if config.verify_threshold is not None and config.verify == 0:
        message = f"verify_threshold {refused} without verify, got {config.verify_threshold!r}"
        raise OptionError(message, option="verify_threshold")
    changed = ["logit_bias"] if config.logit_bias else []
    if not config.penalties.neutral:
        changed += [name for name, neutral in PENALTIES.items() if getattr(config, name) != neutral]
    if config.verify == "exact" and changed:
        raise OptionError(f"{changed[0]} {refused} beside verify exact", option=changed[0])


def _check_start_step(config: Any, steps: int) -> None:
    if config.start_canvas is None or config.strength is not None:
        other = "without start_canvas" if config.start_canvas is None else "beside strength"
        raise OptionError(f"start_step must be left out {other}, got {steps}", option="start_step")
    if steps >= config.max_denoising_steps:
        message = f"start_step must be below max_denoising_steps, {config.max_denoising_steps}, got {steps}"
        raise OptionError(message, option="start_step")
