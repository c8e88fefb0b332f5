"""Defines the events of a request. Terminal, trace and server show the same ones; they are plain data."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from gesso.engine.result import GenerationResult, TokenLogprob
from gesso.errors import DataError
from gesso.text.tool_calls import ToolCall


@dataclass(frozen=True, slots=True)
class DenoisingFrame:
    """Shows the canvas after one denoising step."""

    canvas: int
    """Number of the canvas, from 0."""
    step: int
    """Steps done on it, from 1."""
    max_denoising_steps: int
    temperature: float
    """Temperature of this step."""
    tokens: tuple[int, ...]
    """The likeliest token of every position."""
    accepted: tuple[bool, ...]
    """Positions whose sample stays for the next step."""
    entropy: tuple[float, ...]
    """Nats, per position."""
    pieces: tuple[str, ...]
    """Text of `tokens`, one by one."""
    canvas_tokens: tuple[int, ...] = ()
    """What the next step starts from: a sample where it is accepted, noise elsewhere."""
    pinned: tuple[bool, ...] = ()
    """Positions that are held; empty where none is."""
    forced: tuple[bool, ...] = ()
    """Free positions to which the constraint leaves one text; empty without a constraint."""


@dataclass(frozen=True, slots=True)
class BlockCommitted:
    """Tells that a canvas, or a token in mode `ar`, is finished; `text` and `reasoning` are what it adds to the
    output."""

    canvas: int
    tokens: tuple[int, ...]
    """Tokens of the output behind `begin`, whose text is part of `text`: the canvas cut at the end of the answer."""
    text: str
    reasoning: str
    denoising_steps: int
    converged: bool
    tool_calls: tuple[ToolCall, ...] = ()
    logprobs: tuple[TokenLogprob, ...] = ()
    """Log-probabilities of `tokens`, where the request asked for them."""
    mode: Literal["canvas", "ar"] = "canvas"
    """Mode that it was written in: with `ar` it is one token of an answer that is written token by token."""


@dataclass(frozen=True, slots=True)
class Finished:
    """Ends a request, with its result."""

    result: GenerationResult


@dataclass(frozen=True, slots=True)
class Failed:
    """Ends a request that has no result."""

    kind: Literal["refused", "timeout", "crash"]
    """`refused` where the request contradicts itself in a way that only a canvas shows."""
    message: str
    """What went wrong, in one line."""
    option: str | None = None
    """The option that is meant, of one that is refused."""


Event = DenoisingFrame | BlockCommitted | Finished | Failed
_KINDS: dict[str, type[Event]] = {
    "draft": DenoisingFrame,
    "block": BlockCommitted,
    "finished": Finished,
    "failed": Failed,
}


def event_to_dict(event: Event) -> dict[str, Any]:
    """Returns a JSON-ready dict with the event's kind under `event`."""
    kind = next(name for name, cls in _KINDS.items() if isinstance(event, cls))
    return {"event": kind, **dataclasses.asdict(event)}


def event_from_dict(raw: Mapping[str, Any]) -> Event:
    """Returns the event that `event_to_dict` wrote.

    Raises:
        DataError: an unknown kind, or fields that are missing, too many or of another type.
    """
    fields = dict(raw)
    kind = fields.pop("event", None)
    if not isinstance(kind, str) or kind not in _KINDS:
        raise DataError(f"unknown event {kind!r}")
    result = fields.get("result")
    if isinstance(result, Mapping) and "disputed_tokens" in result:  # the name in traces until November 2026
        fields["result"] = {**result, "rejected_tokens": result["disputed_tokens"]}
        del fields["result"]["disputed_tokens"]
    try:
        event: Event = _read(fields, _KINDS[kind])
    except TypeError as error:
        raise DataError(f"event {kind!r} is not whole: {error}") from None
    if isinstance(event, DenoisingFrame):
        lengths = {len(part) for part in (event.tokens, event.accepted, event.entropy, event.pieces)}
        if len(lengths) > 1 or 0 in lengths:
            raise DataError(f"event {kind!r} is not whole: tokens, accepted, entropy and pieces must be equally long")
        if not all(map(math.isfinite, event.entropy)):
            raise DataError(f"event {kind!r} is not whole: entropy is no finite number")
        for name in ("canvas_tokens", "pinned", "forced"):
            if len(getattr(event, name)) not in (0, len(event.tokens)):
                raise DataError(f"event {kind!r} is not whole: {name} must be as long as tokens, or empty")
    return event


def _read(value: Any, hint: Any, name: str = "it") -> Any:
    """Returns `value`, as JSON has it, as the type that `hint` names."""
    if dataclasses.is_dataclass(hint) and isinstance(value, Mapping):
        hints = get_type_hints(hint)
        return hint(**{key: _read(part, hints.get(key), key) for key, part in value.items()})  # type: ignore[operator]
    if get_origin(hint) is tuple and isinstance(value, list | tuple):
        kinds = get_args(hint)
        kinds = kinds[:1] * len(value) if kinds[-1] is Ellipsis else kinds
        if len(kinds) == len(value):
            return tuple(_read(part, kind, name) for part, kind in zip(value, kinds, strict=True))
    elif get_origin(hint) is Literal:
        if value in get_args(hint):
            return value
    elif hint is None or type(value) in _types(hint) or (hint is float and type(value) is int):
        return value
    raise TypeError(f"{name} is {value!r}")


def _types(hint: Any) -> tuple[Any, ...]:
    """The types of `A | B`, or the one type."""
    return get_args(hint) if isinstance(hint, UnionType) else (hint,)
