"""Cuts streams into events: server-sent events, and lines of JSON as Ollama's clients read them."""

import json
import re
from typing import Any

DRAFT = b"event: diffusion.draft\n"
EVENTS, LINES = "text/event-stream", "application/x-ndjson"
MOST_BYTES = 64 * 2**20
"""Bytes of one event, at most."""


_NOTABLE = re.compile(rb'"error"|\[DONE\]|message_stop|"response\.(?:completed|incomplete|failed)"|"done":\s*true')
"""What the last event of a stream and an error have in them, and hardly any other event."""
_UNREAD = object()


class BadStreamError(Exception):
    """Reports a stream that no server writes."""


class StreamEvent:
    """Holds one event as it came; what it says is read where someone asks.

    Args:
        raw: with what ends it.
        data: parsed, where it is known already.
    """

    def __init__(self, raw: bytes, data: Any = _UNREAD) -> None:
        self.raw = raw
        self._data = data

    @property
    def data(self) -> Any:
        """Reads what it says; None for comments, draft frames and `[DONE]`."""
        if self._data is _UNREAD:
            self._data = None if self.is_comment or self.is_draft else read_data(self.raw)
        return self._data

    @property
    def is_comment(self) -> bool:
        """Says whether it only keeps the connection alive."""
        return self.raw.startswith((b":", b"event: ping\n"))

    @property
    def is_draft(self) -> bool:
        """Says whether it is a canvas on its way, of which any may be left out."""
        return self.raw.startswith(DRAFT)

    @property
    def is_plain(self) -> bool:
        """Says that it is neither the last event nor an error, from a look at its bytes alone."""
        return _NOTABLE.search(self.raw) is None

    @property
    def name(self) -> str:
        """Tells the event's name, empty where it has none."""
        line = self.raw.partition(b"\n")[0]
        return line.removeprefix(b"event: ").decode() if line.startswith(b"event: ") else ""


def read_data(raw: bytes) -> Any:
    """Returns what the data of an event says; None where it is no JSON."""
    text = raw if raw.startswith(b"{") else raw.partition(b"data: ")[2]
    try:
        return json.loads(text)
    except ValueError:
        return None


class Splitter:
    """Puts events together from chunks that are cut anywhere; what has no end at the end is no event.

    Args:
        kind: the media type.
    """

    def __init__(self, kind: str) -> None:
        self._end = b"\n" if kind == LINES else b"\n\n"
        self._rest = b""

    def events(self, chunk: bytes) -> list[StreamEvent]:
        """Returns the events that are whole now.

        Raises:
            BadStreamError: an event is larger than any that a server sends.
        """
        *whole, self._rest = (self._rest + chunk).split(self._end)
        if len(self._rest) > MOST_BYTES:
            raise BadStreamError(f"an event has more than {MOST_BYTES} bytes")
        return [StreamEvent(raw + self._end) for raw in whole if raw]
