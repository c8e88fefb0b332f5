"""The events of a request. Terminal, trace and server draw the same ones; they are plain data."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from gesso.engine.result import GenerationResult
from gesso.errors import DataError


@dataclass(frozen=True, slots=True)
class DraftFrame:
    """The canvas after one denoising step."""

    canvas: int
    """Number of the canvas, from 0."""
    step: int
    """Steps done on it, from 1."""
    max_denoising_steps: int
    temperature: float
    """Of this step."""
    tokens: tuple[int, ...]
    """The likeliest token of every position."""
    accepted: tuple[bool, ...]
    """Positions whose sample stays for the next step."""
    entropy: tuple[float, ...]
    """Nats, per position."""
    pieces: tuple[str, ...]
    """Text of `tokens`, one by one."""


@dataclass(frozen=True, slots=True)
class BlockCommitted:
    """A canvas is finished; `text` and `reasoning` are what it adds to the output."""

    canvas: int
    tokens: tuple[int, ...]
    """Of the output: cut at the end of the answer."""
    text: str
    reasoning: str
    denoising_steps: int
    converged: bool


@dataclass(frozen=True, slots=True)
class Finished:
    """The last event."""

    result: GenerationResult


Event = DraftFrame | BlockCommitted | Finished
Record = TypeVar("Record", bound=Event | GenerationResult)
_KINDS: dict[str, type[Event]] = {"draft": DraftFrame, "block": BlockCommitted, "finished": Finished}


def event_to_dict(event: Event) -> dict[str, Any]:
    """A JSON-ready dict with its kind under `event`."""
    kind = next(name for name, cls in _KINDS.items() if isinstance(event, cls))
    return {"event": kind, **dataclasses.asdict(event)}


def event_from_dict(raw: Mapping[str, Any]) -> Event:
    """The event that `event_to_dict` made.

    Raises:
        DataError: an unknown kind, or fields that are missing, too many or of another type.
    """
    fields = dict(raw)
    kind = fields.pop("event", None)
    if not isinstance(kind, str) or kind not in _KINDS:
        raise DataError(f"unknown event {kind!r}")
    try:
        if kind == "finished":
            fields["result"] = _checked(GenerationResult(**_tuples(fields["result"])))
        event = _checked(_KINDS[kind](**_tuples(fields)))
    except (TypeError, KeyError, AttributeError) as error:
        raise DataError(f"event {kind!r} is not whole: {error}") from None
    if isinstance(event, DraftFrame):
        lengths = {len(part) for part in (event.tokens, event.accepted, event.entropy, event.pieces)}
        if len(lengths) > 1 or 0 in lengths:
            raise DataError(f"event {kind!r} is not whole: tokens, accepted, entropy and pieces must be equally long")
    return event


def _checked(record: Record) -> Record:
    for name, hint in get_type_hints(type(record)).items():
        if not _fits(getattr(record, name), hint):
            raise TypeError(f"{name} is {getattr(record, name)!r}")
    return record


def _fits(value: object, hint: Any) -> bool:
    if get_origin(hint) is tuple:
        return isinstance(value, tuple) and all(_fits(part, get_args(hint)[0]) for part in value)
    if get_origin(hint) is Literal:
        return value in get_args(hint)
    return type(value) is hint or (hint is float and type(value) is int)


def _tuples(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}
