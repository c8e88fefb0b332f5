"""Reads events of all interfaces as far as a router has to: which choice, what text, whether a fault or the last."""

import hashlib
import json
from typing import Any

from gesso.router.events import StreamEvent

_IDS = {"id", "item_id", "response_id", "call_id", "created", "created_at", "completed_at"}
"""Fields that name a stream or its time; the first stream's are kept."""
_OWN = {
    "system_fingerprint", "cached_tokens", "cache_read_input_tokens", "decision", "total_duration", "load_duration",
    "prompt_eval_duration", "eval_duration", "input_tokens_details", "prompt_tokens_details",
    "sequence_number",
}  # fmt: skip
"""Fields that differ from server to server and say nothing of the text."""
_LAST = {"message_stop", "response.completed", "response.incomplete", "response.failed", "error"}
_FAULTS = {"shutting_down", "not_ready", "engine_failed", "engine_hangs", "internal_error", "queue_full"}
"""Codes of errors that are the server's, not the request's."""
_FAULT_TYPES = {"overloaded_error", "api_error", "server_error"}


def is_fault(event: StreamEvent) -> bool:
    """Says whether an event tells that its server broke the stream off, so that another one may go on with it."""
    if event.is_plain:
        return False
    data = event.data
    if not isinstance(data, dict):
        return False
    error = _error(data)
    if isinstance(error, str):  # Ollama's, with the code beside it
        return data.get("code") in _FAULTS
    if not isinstance(error, dict):
        return False
    return error.get("code") in _FAULTS or ("code" not in error and error.get("type") in _FAULT_TYPES)


def fault_code(data: Any) -> str | None:
    """Returns the code of an error, in an event or as a whole answer, or its type where it has none."""
    error = _error(data) if isinstance(data, dict) else None
    place = data if isinstance(error, str) else error
    code = place.get("code", place.get("type")) if isinstance(place, dict) else None
    return code if isinstance(code, str) else None


def _error(data: dict[str, Any]) -> Any:
    if data.get("type") == "error" and "error" not in data:  # an event of responses is the error itself
        return data
    response = data.get("response")
    return data.get("error") or (response.get("error") if isinstance(response, dict) else None)


def digest(event: StreamEvent) -> tuple[bytes, list[tuple[str, Any]]]:
    """Returns a digest of an event without what names it or its time, and those names in their order."""
    ids: list[tuple[str, Any]] = []
    if event.data is None:
        return hashlib.blake2b(event.raw, digest_size=16).digest(), ids
    kept = _without(event.data, ids)
    text = json.dumps([event.name, kept], sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).digest(), ids


def _without(value: Any, ids: list[tuple[str, Any]]) -> Any:
    if isinstance(value, list):
        return [_without(part, ids) for part in value]
    if not isinstance(value, dict):
        return value
    kept = {}
    for key in sorted(value):
        part = value[key]
        if key in _IDS and isinstance(part, str | int | float):
            ids.append((key, part))
        elif key not in _OWN:
            kept[key] = _without(part, ids)
    return kept


def choice(data: Any) -> int:
    """Returns the choice that an event is of; -1 for those of none."""
    choices = data.get("choices") if isinstance(data, dict) else None
    if choices is None:
        return 0
    return int(choices[0].get("index", 0)) if choices else -1


def frame(data: Any) -> tuple[int, int]:
    """Returns the canvas and the step of a draft."""
    draft = data.get("draft") or {} if isinstance(data, dict) else {}
    return int(draft.get("canvas", 0)), int(draft.get("step", 0))


def is_last(event: StreamEvent) -> bool:
    """Says whether nothing comes behind an event."""
    if event.raw.startswith(b"data: [DONE]"):
        return True
    data = event.data
    if not isinstance(data, dict):
        return False
    return data.get("type") in _LAST or data.get("done") is True or isinstance(data.get("error"), str)


def first_choice(data: Any) -> dict[str, Any]:
    """Returns the choice of a chunk; nothing where there is none."""
    choices = data.get("choices") if isinstance(data, dict) else None
    first: dict[str, Any] = choices[0] if choices else {}
    return first


def is_opening(data: Any) -> bool:
    """Says whether it is a chunk that only gives a role."""
    return "role" in (first_choice(data).get("delta") or {})


def closing(data: Any) -> str | None:
    """Names what a chunk says of the end: the reason to `finish`, or the `usage`; None where it says neither."""
    choices = data.get("choices") if isinstance(data, dict) else None
    if choices is None:
        return None
    if not choices:
        return "usage"
    return None if choices[0].get("finish_reason") is None else "finish"


def said(data: Any) -> str | None:
    """Returns what an event adds to a text; None where it is no chunk of one."""
    first = first_choice(data)
    if first.get("finish_reason") is not None:
        return None
    text = first["text"] if "text" in first else (first.get("delta") or {}).get("content")
    return text if isinstance(text, str) else None


def replaced(data: Any, text: str) -> Any:
    """Returns a chunk with another text."""
    first = dict(data["choices"][0])
    if "text" in first:
        first["text"] = text
    else:
        first["delta"] = {**first["delta"], "content": text}
    return {**data, "choices": [first]}


def with_text(event: StreamEvent, text: str) -> bytes:
    """Returns an event with another text, written as servers write theirs."""
    return b"data: " + json.dumps(replaced(event.data, text), separators=(",", ":")).encode() + b"\n\n"
