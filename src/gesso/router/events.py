"""Cuts streams into events: server-sent events, and lines of JSON as Ollama's clients read them."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

DRAFT = b"event: diffusion.draft\n"
EVENTS, LINES = "text/event-stream", "application/x-ndjson"
MOST_BYTES = 64 * 2**20
"""Of one event."""


class BadStreamError(Exception):
    """Reports a stream that no server writes."""


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """Holds one event as it came."""

    raw: bytes
    """With what ends it."""
    data: Any = None
    """Parsed; None for comments, draft frames and `[DONE]`."""

    @property
    def is_comment(self) -> bool:
        """Says whether it only keeps the connection alive."""
        return self.raw.startswith((b":", b"event: ping\n"))

    @property
    def is_draft(self) -> bool:
        """Says whether it is a canvas on its way, of which any may be left out."""
        return self.raw.startswith(DRAFT)

    @property
    def name(self) -> str:
        """Tells the event's name, empty where it has none."""
        line = self.raw.partition(b"\n")[0]
        return line.removeprefix(b"event: ").decode() if line.startswith(b"event: ") else ""


def parse_event(raw: bytes) -> StreamEvent:
    """Reads one event or line; drafts, which are many, are left unread."""
    if raw.startswith((b":", b"event: ping\n", DRAFT)):
        return StreamEvent(raw)
    return StreamEvent(raw, read_data(raw))


def read_data(raw: bytes) -> Any:
    """Returns what the data of an event says; None where it is no JSON."""
    text = raw if raw.startswith(b"{") else raw.partition(b"data: ")[2]
    try:
        return json.loads(text)
    except ValueError:
        return None


async def split_events(chunks: AsyncIterator[bytes], kind: str) -> AsyncIterator[StreamEvent]:
    """Yields whole events; what is left at the end without its end is dropped.

    Raises:
        BadStreamError: an event is larger than any that a server sends.
    """
    ends = b"\n" if kind == LINES else b"\n\n"
    rest = b""
    async for chunk in chunks:
        *whole, rest = (rest + chunk).split(ends)
        if len(rest) > MOST_BYTES:
            raise BadStreamError(f"an event has more than {MOST_BYTES} bytes")
        for raw in whole:
            if raw:
                yield parse_event(raw + ends)
