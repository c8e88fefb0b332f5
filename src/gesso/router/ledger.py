"""Keeps the books of one stream: what the client has, so that another server's stream of the same goes on behind it.

Same seed, same text: the other server sends the same events, but for their ids and times. Those that the client has are
compared with what was sent and left out, and the ids of the rest are written as in the first stream. Until a server is
lost nothing of this is done: events pass as they come, and are kept to be read should it be needed. Where a server
rounds otherwise, its text differs at some point. A stream that goes on there is asked for with what the client has as
the beginning of the answer (`diffusion.begin`), which ends where a canvas does: text is only sent canvas by canvas.
"""

import json
from typing import Any

from gesso.router import chunks
from gesso.router.events import StreamEvent, read_data


class DivergedError(Exception):
    """Reports a second stream that is not the first one over again."""


class Ledger:
    """Follows one stream through all servers that send it."""

    def __init__(self) -> None:
        self._first = True
        """Whether no other server was asked yet."""
        self.finished = False
        """Whether the last event was sent."""
        self.progress = 0
        """Events that were sent, but for drafts and comments."""
        self._text = ""
        self._can_begin = True
        self._unread: list[StreamEvent] = []
        """Events of the first stream that were sent, and nobody has looked at."""
        self._closings: set[str] = set()
        """What the client has of the end: the reason to finish, the usage."""
        self._sent: dict[int, list[tuple[bytes, list[Any]]]] = {}
        """Events that were sent, by choice: a digest of each, and its ids."""
        self._replayed: dict[int, int] = {}
        """Events of the stream under way that the client has, by choice."""
        self._renames: list[tuple[bytes, bytes]] = []
        self._begun: str | None = None
        """What is left to be skipped of the beginning that was asked for."""
        self._last_draft: bytes = b""
        self._seen: dict[int, tuple[int, int]] = {}
        """Canvas and step of the last draft that was sent, by choice."""

    @property
    def text(self) -> str:
        """Returns what was sent of the answer, where it is text."""
        self._read()
        return self._text

    @property
    def can_begin(self) -> bool:
        """Says whether all that was sent is text that a new answer can begin with."""
        self._read()
        return self._can_begin

    def restart(self, begin: bool = False) -> None:
        """Prepares for the stream of another server.

        Args:
            begin: whether it was asked to begin the answer with `text`.
        """
        self._read()
        self._first = False
        self._replayed = {}
        self._renames = []
        if self._last_draft and (data := read_data(self._last_draft)) is not None:
            self._seen[chunks.choice(data)] = chunks.frame(data)
        if begin:
            self._begun = self._text

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
        if self._first:
            return self._pass(event)
        if event.is_draft:
            return self._draft(event)
        if self._begun is not None:
            return self._behind_beginning(event)
        choice = chunks.choice(event.data)
        digest, ids = chunks.digest(event)
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

    def _pass(self, event: StreamEvent) -> bytes:
        """Sends an event of the first stream as it is."""
        if event.is_draft:
            self._last_draft = event.raw
            return event.raw
        self.progress += 1
        self._unread.append(event)
        self.finished = self.finished or (not event.is_plain and chunks.is_last(event))
        return event.raw

    def _read(self) -> None:
        """Reads what was passed."""
        unread, self._unread = self._unread, []
        for event in unread:
            digest, ids = chunks.digest(event)
            self._sent.setdefault(chunks.choice(event.data), []).append((digest, list(ids)))
            self._note(event)

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
        if event.name == "diffusion.block" or chunks.is_opening(event.data):
            # Canvases are counted anew, and the client has had its opening.
            return b""
        if chunks.closing(event.data) in self._closings:
            self._begun = ""
            return b""
        if not self._begun:
            return self._send(event)
        said = chunks.said(event.data)
        if said is None:
            raise DivergedError
        if self._begun.startswith(said):
            self._begun = self._begun[len(said) :]
            return b""
        if not said.startswith(self._begun):
            raise DivergedError
        rest, self._begun = said[len(self._begun) :], ""
        return self._send(StreamEvent(chunks.with_text(event, rest), chunks.replaced(event.data, rest)))

    def _adopt(self, event: StreamEvent) -> None:
        """Learns the ids of a stream whose events are not the first one's."""
        sent = self._sent.get(0)
        if sent and not self._renames:
            _, ids = chunks.digest(event)
            first = dict(sent[0][1])
            shared = [pair for pair in ids if pair[0] in first]
            self._rename(shared, [(key, first[key]) for key, _ in shared])

    def _draft(self, event: StreamEvent) -> bytes:
        """Leaves out frames that the client has; while nothing is repeated they go as they come."""
        if self._begun is not None:
            return b""
        if self._seen:
            data = read_data(event.raw)
            choice = chunks.choice(data)
            if self._replayed.get(choice, 0) < len(self._sent.get(choice, ())):
                return b""
            if chunks.frame(data) <= self._seen.get(choice, (-1, -1)):
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
        self.finished = self.finished or chunks.is_last(event)
        said, data = chunks.said(event.data), event.data
        if said is not None:
            self._text += said
        if isinstance(data, dict):
            for choice in data.get("choices") or ():
                delta = choice.get("delta") or {}
                if choice.get("index") or choice.get("logprobs") or set(delta) - {"role", "content"}:
                    self._can_begin = False
        closing = chunks.closing(data)
        if closing is not None:
            self._closings.add(closing)
        elif said is None and not chunks.is_opening(data) and event.name != "diffusion.block":
            self._can_begin = self._can_begin and self.finished
