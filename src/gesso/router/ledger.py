"""Keeps the books of one stream: what the client has, so that another server's stream of the same goes on behind it.

Same seed, same text: the other server sends the same events, but for their ids and times. Those that the client has are
compared with what was sent and left out, and the ids of the rest are written as in the first stream. Where a server
rounds otherwise, its text differs at some point. A stream that goes on there is asked for with what the client has as
the beginning of the answer (`diffusion.begin`), which ends where a canvas does: text is only sent canvas by canvas.
"""

import hashlib
import json
from typing import Any

from gesso.router.events import StreamEvent, read_data

_IDS = {"id", "item_id", "response_id", "call_id", "created", "created_at", "completed_at"}
"""Fields that name a stream or its time; the first stream's are kept."""
_OWN = {
    "system_fingerprint", "cached_tokens", "cache_read_input_tokens", "decision", "total_duration", "load_duration",
    "prompt_eval_duration", "eval_duration", "input_tokens_details", "prompt_tokens_details",
    "sequence_number",
}  # fmt: skip
"""Fields that differ from server to server and say nothing of the text."""
_LAST = {"message_stop", "response.completed", "response.incomplete", "response.failed"}
_FAULTS = {"shutting_down", "not_ready", "engine_failed", "engine_hangs", "internal_error", "queue_full"}
"""Codes of errors that are the server's, not the request's."""
_FAULT_TYPES = {"overloaded_error", "api_error", "server_error"}


class DivergedError(Exception):
    """Reports a second stream that is not the first one over again."""


class Ledger:
    """Follows one stream through all servers that send it."""

    def __init__(self) -> None:
        self.finished = False
        """Whether the last event was sent."""
        self.progress = 0
        """Events that were sent, but for drafts and comments."""
        self.text = ""
        """What was sent of the answer, where it is one."""
        self.can_begin = True
        """Whether all that was sent is text that a new answer can begin with."""
        self._sent: dict[int, list[tuple[bytes, list[Any]]]] = {}
        """By choice: a digest of each event, and its ids."""
        self._replayed: dict[int, int] = {}
        """By choice: events of the stream under way that the client has."""
        self._renames: list[tuple[bytes, bytes]] = []
        self._begun: str | None = None
        """What is left to be skipped of the beginning that was asked for."""
        self._last_draft: bytes = b""
        self._seen: dict[int, tuple[int, int]] = {}
        """By choice: canvas and step of the last draft that was sent."""

    def restart(self, begin: bool = False) -> None:
        """Prepares for the stream of another server.

        Args:
            begin: whether it was asked to begin the answer with `text`.
        """
        self._replayed = {}
        self._renames = []
        if self._last_draft and (data := read_data(self._last_draft)) is not None:
            self._seen[_choice(data)] = _frame(data)
        if begin:
            self._begun = self.text

    @property
    def began(self) -> bool:
        """Says whether the answer was asked for anew from some point on: no server repeats its events then."""
        return self._begun is not None

    def take(self, event: StreamEvent) -> bytes:
        """Returns what the client is to be sent of an event, which may be nothing.

        Raises:
            DivergedError: another event was sent in its place.
        """
        if event.is_comment:
            return event.raw
        if event.is_draft:
            return self._draft(event)
        if self._begun is not None:
            return self._behind_beginning(event)
        choice = _choice(event.data)
        digest, ids = _digest(event)
        sent = self._sent.setdefault(choice, [])
        place = self._replayed.get(choice, 0)
        self._replayed[choice] = place + 1
        if place < len(sent):
            known, first_ids = sent[place]
            if known != digest or len(ids) != len(first_ids):
                raise DivergedError
            self._rename(ids, first_ids)
            return b""
        sent.append((digest, [(key, self._renamed(value)) for key, value in ids]))
        return self._send(event)

    def _send(self, event: StreamEvent) -> bytes:
        self.progress += 1
        self._note(event)
        raw = event.raw
        for theirs, ours in self._renames:
            raw = raw.replace(theirs, ours)
        return raw

    def _behind_beginning(self, event: StreamEvent) -> bytes:
        """What comes after the text that the answer was made to begin with."""
        self._adopt(event)
        if event.name == "diffusion.block" or _is_opening(event.data):
            # Canvases are counted anew, and the client has had its opening.
            return b""
        if not self._begun:
            return self._send(event)
        said = _said(event.data)
        if said is None:
            raise DivergedError
        if self._begun.startswith(said):
            self._begun = self._begun[len(said) :]
            return b""
        if not said.startswith(self._begun):
            raise DivergedError
        rest, self._begun = said[len(self._begun) :], ""
        return self._send(StreamEvent(_with_text(event, rest), _replaced(event.data, rest)))

    def _adopt(self, event: StreamEvent) -> None:
        """Learns the ids of a stream whose events are not the first one's."""
        sent = self._sent.get(0)
        if sent and not self._renames:
            _, ids = _digest(event)
            first = dict(sent[0][1])
            shared = [pair for pair in ids if pair[0] in first]
            self._rename(shared, [(key, first[key]) for key, _ in shared])

    def _draft(self, event: StreamEvent) -> bytes:
        """Leaves out frames that the client has; while nothing is repeated they go as they come."""
        if self._begun is not None:
            return b""
        if self._seen:
            data = read_data(event.raw)
            choice = _choice(data)
            if self._replayed.get(choice, 0) < len(self._sent.get(choice, ())):
                return b""
            if _frame(data) <= self._seen.get(choice, (-1, -1)):
                return b""
            self._seen.pop(choice, None)
        elif any(self._replayed.get(choice, 0) < len(sent) for choice, sent in self._sent.items()):
            return b""
        self._last_draft = event.raw
        raw = event.raw
        for theirs, ours in self._renames:
            raw = raw.replace(theirs, ours)
        return raw

    def _rename(self, theirs: list[Any], ours: list[Any]) -> None:
        for (key, new), (_, old) in zip(theirs, ours, strict=True):
            if new == old or (key.endswith(("_at", "created")) and isinstance(new, str)):
                continue  # a time of its own on every line
            for colon in (":", ": "):
                pair = (f'"{key}"{colon}{json.dumps(new)}'.encode(), f'"{key}"{colon}{json.dumps(old)}'.encode())
                if isinstance(new, str) and not key.startswith("created"):
                    pair = (json.dumps(new).encode(), json.dumps(old).encode())
                if pair not in self._renames:
                    self._renames.append(pair)

    def shown(self, identity: str) -> str:
        """Returns an id as the client reads it."""
        return str(self._renamed(identity))

    def _renamed(self, value: Any) -> Any:
        text = json.dumps(value).encode()
        for theirs, ours in self._renames:
            if text == theirs:
                return json.loads(ours)
        return value

    def _note(self, event: StreamEvent) -> None:
        """Remembers what a stream from here on has to know."""
        self.finished = self.finished or _is_last(event)
        said, data = _said(event.data), event.data
        if said is not None:
            self.text += said
        if isinstance(data, dict):
            for choice in data.get("choices") or ():
                delta = choice.get("delta") or {}
                if choice.get("index") or choice.get("logprobs") or set(delta) - {"role", "content"}:
                    self.can_begin = False
        if said is None and not _is_opening(data) and event.name != "diffusion.block":
            self.can_begin = self.can_begin and bool(self.finished or _is_ending(data))


def is_fault(event: StreamEvent) -> bool:
    """Says whether an event tells that its server broke the stream off, so that another one may go on with it."""
    data = event.data
    if not isinstance(data, dict):
        return False
    error = data.get("error")
    if isinstance(error, str):  # Ollama's have no code
        return True
    if not isinstance(error, dict):
        response = data.get("response")
        error = response.get("error") if isinstance(response, dict) else None
    if not isinstance(error, dict):
        return False
    return error.get("code") in _FAULTS or ("code" not in error and error.get("type") in _FAULT_TYPES)


def _digest(event: StreamEvent) -> tuple[bytes, list[tuple[str, Any]]]:
    """An event without what names it or its time, and those names in their order."""
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


def _choice(data: Any) -> int:
    """The choice that an event is of; -1 for those of none."""
    choices = data.get("choices") if isinstance(data, dict) else None
    if choices is None:
        return 0
    return int(choices[0].get("index", 0)) if choices else -1


def _frame(data: Any) -> tuple[int, int]:
    draft = data.get("draft") or {} if isinstance(data, dict) else {}
    return int(draft.get("canvas", 0)), int(draft.get("step", 0))


def _is_last(event: StreamEvent) -> bool:
    if event.raw.startswith(b"data: [DONE]"):
        return True
    data = event.data
    if not isinstance(data, dict):
        return False
    return data.get("type") in _LAST or data.get("done") is True


def _first_choice(data: Any) -> dict[str, Any]:
    """The choice of a chunk; nothing where there is none."""
    choices = data.get("choices") if isinstance(data, dict) else None
    choice: dict[str, Any] = choices[0] if choices else {}
    return choice


def _is_opening(data: Any) -> bool:
    """Whether it is a chunk that only gives a role."""
    return "role" in (_first_choice(data).get("delta") or {})


def _is_ending(data: Any) -> bool:
    """Whether it is a chunk with a reason to finish, or with the usage."""
    choices = data.get("choices") if isinstance(data, dict) else None
    return choices is not None and (not choices or choices[0].get("finish_reason") is not None)


def _said(data: Any) -> str | None:
    """What an event adds to a text; None where it is no chunk of one."""
    choice = _first_choice(data)
    if choice.get("finish_reason") is not None:
        return None
    said = choice["text"] if "text" in choice else (choice.get("delta") or {}).get("content")
    return said if isinstance(said, str) else None


def _replaced(data: Any, text: str) -> Any:
    choice = dict(data["choices"][0])
    if "text" in choice:
        choice["text"] = text
    else:
        choice["delta"] = {**choice["delta"], "content": text}
    return {**data, "choices": [choice]}


def _with_text(event: StreamEvent, text: str) -> bytes:
    """The chunk with another text, written as servers write theirs."""
    return b"data: " + json.dumps(_replaced(event.data, text), separators=(",", ":")).encode() + b"\n\n"
