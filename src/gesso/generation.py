"""What a request may ask of generation: what a checkpoint's `generation_config.json` sets and a request overrides.

Frozen, complete, changed with `override`, which refuses by name.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import isfinite
from operator import index
from typing import Any, Literal, get_args

from gesso.errors import OptionError

Mode = Literal["canvas", "ar", "auto"]
Verify = int | Literal["auto"]
CanvasWidths = Literal["full", "need", "auto"]
NARROWEST = 8
"""Tokens of the narrowest canvas that `canvas_width` chooses."""
CONSTRAINTS = ("regex", "json_schema", "json_object", "choices", "grammar")
MOST_TEMPERATURE = 2.0
MOST_LOGPROBS = 20
MOST_ROUNDS = 8
VERIFY_THRESHOLD = 3.0
"""Nats; see `GenerationConfig.verify_threshold`."""


def _check(condition: bool, name: str, rule: str, value: object) -> None:
    if not condition:
        raise OptionError(f"{name} must be {rule}, got {value!r}")


@dataclass(frozen=True, slots=True)
class GenerationConfig:
    """How one request is denoised. Defaults are the published ones; a checkpoint's
    `generation_config.json` replaces them and a request overrides both."""

    max_new_tokens: int = 256
    max_denoising_steps: int = 48
    """Steps a canvas may take at most."""
    entropy_bound: float = 0.1
    """Nats: how much joint uncertainty one step may accept (arXiv 2505.24857)."""
    t_min: float = 0.4
    t_max: float = 0.8
    """Temperatures of the schedule: `t_max` at the first step, towards `t_min` at the last."""
    stability_threshold: int = 1
    """Equal argmax canvases in a row before the last one that are needed to stop."""
    confidence_threshold: float = 0.005
    """Nats: mean entropy a position must fall below to stop."""
    canvas_length: int | None = None
    """Tokens of this request's canvases; None takes the model's."""
    canvas_width: CanvasWidths = "full"
    """How wide each canvas is: `full`, the whole `canvas_length`; `need`, no wider than what `max_new_tokens` leaves;
    or `auto`, which also starts with an eighth and doubles from canvas to canvas. Never below `NARROWEST`."""
    stop_at_end: bool = False
    """Once a canvas holds the end of the answer, only what stands up to it counts for stopping."""
    verify: Verify = 0
    """Rounds of self-verification a canvas may take: a finished canvas is read by the causal pass of the same weights,
    and tokens that it disputes are re-noised and denoised again before the canvas is committed. `auto` is one round,
    and none for what is over within its first canvas, whose pass would come on top, nor for a given canvas."""
    verify_threshold: float | None = None
    """Nats: a token is disputed where the causal pass finds another one likelier by more than so much. None takes
    `VERIFY_THRESHOLD`."""
    mode: Mode = "canvas"
    """`canvas` denoises whole canvases; `ar` writes token by token with the causal pass of the same weights, at the
    schedule's last temperature; `auto` takes what is quicker (see `gesso.engine.cost`)."""
    temperature: float = 1.0
    """Scales the temperature at which tokens are drawn; how sure a position is, is measured at the schedule's own.
    0 takes the likeliest token."""
    top_k: int = 0
    """Only the so many likeliest tokens of a position count; 0 counts all."""
    top_p: float = 1.0
    """Only the likeliest tokens that together reach this probability count."""
    logit_bias: Mapping[int, float] = dataclasses.field(default_factory=dict)
    """Added to the logits of these token ids, in every pass."""
    thinking_budget: int | None = None
    """Thought tokens after which the thought is closed; None lets it end by itself."""
    logprobs: int | None = None
    """Report every generated token's log-probability, by the causal pass of the same weights, beside this many of
    the likeliest; None reports none and costs nothing."""
    probe: tuple[tuple[int, ...], ...] | None = None
    """Token sequences of which the first denoising pass over the first canvas tells the log-probability, each as if
    the answer began with it. They do not change the answer."""
    seed: int | None = None
    """None draws a fresh one, which the result reports."""
    stop: tuple[str, ...] = ()
    ignore_eos: bool = False
    start_canvas: tuple[int, ...] | None = None
    """Token ids that canvases start from, a whole number of canvases; None, and every later canvas, starts from
    uniform random ones."""
    strength: float | None = None
    """How much of `start_canvas` may change: each of its tokens is re-noised with this probability, and this share of
    `max_denoising_steps` is left, the coolest ones. None takes it as it is, with all steps."""
    canvas: tuple[int | None, ...] | None = None
    """Pins: what the answer holds, position by position from its start: a token id, or None where it is free. The
    answer does not end before the last pin."""
    regex: str | None = None
    """A constraint: the whole answer matches this regular expression. One constraint at most is given."""
    json_schema: Mapping[str, Any] | bool | None = None
    """A constraint: the answer is JSON that validates under this schema (see `gesso.constraints.json_schema`)."""
    json_object: bool = False
    """A constraint: the answer is a JSON object."""
    choices: tuple[str, ...] | None = None
    """A constraint: the answer is one of these."""
    grammar: str | None = None
    """A constraint: the answer follows this grammar (see `gesso.constraints.grammar`)."""
    eos_token_ids: tuple[int, ...] = (1,)
    pad_token_id: int = 0

    def __post_init__(self) -> None:
        _check_int("max_new_tokens", self.max_new_tokens, 1)
        _check_int("max_denoising_steps", self.max_denoising_steps, 1)
        _check_int("stability_threshold", self.stability_threshold, 0)
        _check_int("pad_token_id", self.pad_token_id, 0)
        if self.seed is not None:
            _check_int("seed", self.seed, 0)
            _check(self.seed < 2**63, "seed", "below 2**63", self.seed)
        _check_number("entropy_bound", self.entropy_bound)
        _check_number("confidence_threshold", self.confidence_threshold)
        _check_number("t_min", self.t_min)
        _check_number("t_max", self.t_max)
        _check(self.t_max > 0, "t_max", "above 0", self.t_max)
        _check(self.t_max >= self.t_min, "t_max", f"at least t_min ({self.t_min})", self.t_max)
        if self.canvas_length is not None:
            _check_int("canvas_length", self.canvas_length, 1)
        _check_number("temperature", self.temperature)
        _check(self.temperature <= MOST_TEMPERATURE, "temperature", f"at most {MOST_TEMPERATURE}", self.temperature)
        _check_int("top_k", self.top_k, 0)
        _check_number("top_p", self.top_p)
        _check(0 < self.top_p <= 1, "top_p", "above 0 and at most 1", self.top_p)
        _check(_is_bias(self.logit_bias), "logit_bias", "a mapping of token ids to finite numbers", self.logit_bias)
        if self.thinking_budget is not None:
            _check_int("thinking_budget", self.thinking_budget, 0)
        if self.logprobs is not None:
            _check_int("logprobs", self.logprobs, 0)
            _check(self.logprobs <= MOST_LOGPROBS, "logprobs", f"at most {MOST_LOGPROBS}", self.logprobs)
        for name in ("ignore_eos", "stop_at_end"):
            _check(isinstance(getattr(self, name), bool), name, "true or false", getattr(self, name))
        stop = _parts(self.stop)
        good = stop is not None and all(isinstance(s, str) and s for s in stop)
        _check(good, "stop", "a sequence of strings that are not empty", self.stop)
        object.__setattr__(self, "stop", stop)
        object.__setattr__(self, "eos_token_ids", _token_ids("eos_token_ids", self.eos_token_ids))
        self._check_canvases()
        self._check_constraint()

    def _check_canvases(self) -> None:
        _check(self.mode in get_args(Mode), "mode", f"one of {', '.join(get_args(Mode))}", self.mode)
        widths = get_args(CanvasWidths)
        _check(self.canvas_width in widths, "canvas_width", f"one of {', '.join(widths)}", self.canvas_width)
        if isinstance(self.verify, str):
            _check(self.verify == "auto", "verify", f"auto or a number of rounds up to {MOST_ROUNDS}", self.verify)
        else:
            _check_int("verify", self.verify, 0)
            _check(self.verify <= MOST_ROUNDS, "verify", f"at most {MOST_ROUNDS}", self.verify)
            _check(not self.verify or self.mode != "ar", "verify", "left out with mode ar", self.verify)
        if self.verify_threshold is not None:
            _check_number("verify_threshold", self.verify_threshold)
            _check(self.verify != 0, "verify_threshold", "left out without verify", self.verify_threshold)
        if self.start_canvas is not None:
            _check(_parts(self.start_canvas) != (), "start_canvas", "a list of token ids, not empty", self.start_canvas)
            object.__setattr__(self, "start_canvas", _token_ids("start_canvas", self.start_canvas))
        if self.probe is not None:
            sequences = _parts(self.probe)
            good = sequences is not None and all(_parts(sequence) != () for sequence in sequences)
            _check(good, "probe", "a list of lists of token ids, none of them empty", self.probe)
            object.__setattr__(self, "probe", tuple(_token_ids("probe", sequence) for sequence in sequences or ()))
        if self.strength is not None:
            _check_number("strength", self.strength)
            _check(0 < self.strength <= 1, "strength", "above 0 and at most 1", self.strength)
            _check(self.start_canvas is not None, "strength", "left out without start_canvas", self.strength)
        if self.canvas is not None:
            _check(_parts(self.canvas) != (), "canvas", "a list of token ids and None, not empty", self.canvas)
            free = [part is None for part in _parts(self.canvas) or ()]
            ids = iter(_token_ids("canvas", [part for part in _parts(self.canvas) or (-1,) if part is not None]))
            object.__setattr__(self, "canvas", tuple(None if is_free else next(ids) for is_free in free))
            _check(self.thinking_budget is None, "thinking_budget", "left out beside canvas", self.thinking_budget)
        for name in ("start_canvas", "canvas", "probe"):
            given = getattr(self, name) is not None
            if given and self.mode == "ar":
                raise OptionError(f"mode ar has no canvas: leave {name} out")
            if given and name != "probe" and self.canvas_width != "full":
                raise OptionError(f"canvas_width {self.canvas_width} does not go with {name}: widths would shift")

    @property
    def constraint(self) -> str | None:
        """Name of the constraint that is given."""
        return next(iter(self._constraints()), None)

    def _constraints(self) -> list[str]:
        return [name for name in CONSTRAINTS if getattr(self, name) is not None and getattr(self, name) is not False]

    def _check_constraint(self) -> None:
        given = self._constraints()
        if self.json_schema is False:
            raise OptionError("json_schema false allows nothing")
        if len(given) > 1:
            raise OptionError(f"{given[0]} and {given[1]} contradict: an answer has one constraint at most")
        for name in ("regex", "grammar"):
            value = getattr(self, name)
            _check(value is None or isinstance(value, str), name, "a string", value)
        schema = self.json_schema
        _check(schema is None or isinstance(schema, Mapping | bool), "json_schema", "a schema (a mapping)", schema)
        _check(isinstance(self.json_object, bool), "json_object", "true or false", self.json_object)
        if self.choices is not None:
            options = _parts(self.choices)
            good = bool(options) and all(isinstance(option, str) and option for option in options or ())
            _check(good, "choices", "a sequence of strings that are not empty", self.choices)
            object.__setattr__(self, "choices", options)
        if given:
            _check(not self.ignore_eos, "ignore_eos", f"left out beside {given[0]}", self.ignore_eos)

    def override(self, **changes: Any) -> "GenerationConfig":
        """A copy with the changes that are not None.

        Raises:
            OptionError: an option that does not exist, or a value that is impossible.
        """
        known = {f.name for f in dataclasses.fields(self)}
        for name in changes:
            if name not in known:
                raise OptionError(f"unknown option {name!r}; known: {', '.join(sorted(known))}")
        return dataclasses.replace(self, **{k: v for k, v in changes.items() if v is not None})


def _is_bias(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(token, int)
        and not isinstance(token, bool)
        and token >= 0
        and isinstance(bias, int | float)
        and not isinstance(bias, bool)
        and isfinite(bias)
        for token, bias in value.items()
    )


def _check_int(name: str, value: object, least: int) -> None:
    good = isinstance(value, int) and not isinstance(value, bool) and value >= least
    _check(good, name, f"an integer of at least {least}", value)


def _parts(value: object) -> tuple[Any, ...] | None:
    """The elements of a sequence; None where it is none, a string included."""
    return tuple(value) if isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping) else None


def _token_ids(name: str, value: object) -> tuple[int, ...]:
    parts = _parts(value)
    try:
        ids = tuple(-1 if isinstance(part, bool) else index(part) for part in parts or ())
    except TypeError:
        ids = (-1,)
    _check(parts is not None and min(ids, default=0) >= 0, name, "a sequence of token ids", value)
    return ids


def _check_number(name: str, value: object) -> None:
    good = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf")
    _check(good, name, "a number of at least 0", value)
