"""Conversations that `previous_response_id` goes on from: the newest, in memory, within a bound."""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

MOST_RESPONSES = 1024
MOST_CHARACTERS = 64 * 2**20
"""Characters of all that is kept together, as JSON would have it."""


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """Holds a response, and the conversation up to it."""

    body: dict[str, Any]
    """The response as it was answered."""
    input: tuple[dict[str, Any], ...]
    """All items that it answers, those of earlier responses among them, without instructions."""
    size: int


class ResponseStore:
    """Keeps responses by id; the one that was used least recently goes first. Of any thread."""

    def __init__(self, most: int = MOST_RESPONSES, characters: int = MOST_CHARACTERS) -> None:
        self._most, self._characters = most, characters
        self._kept: OrderedDict[str, StoredResponse] = OrderedDict()
        self._held = 0
        self._lock = threading.Lock()

    def put(self, body: dict[str, Any], given: Sequence[dict[str, Any]]) -> None:
        """Keeps a response; one that is larger than the bound is not kept."""
        stored = StoredResponse(body, tuple(given), _size(body) + _size(given))
        if stored.size > self._characters:
            return
        with self._lock:
            self._kept[body["id"]] = stored
            self._held += stored.size
            while self._held > self._characters or len(self._kept) > self._most:
                _, gone = self._kept.popitem(last=False)
                self._held -= gone.size

    def get(self, identity: str) -> StoredResponse | None:
        """Finds a response, which is the newest then; None where it is not here, or no longer."""
        with self._lock:
            if identity in self._kept:
                self._kept.move_to_end(identity)
            return self._kept.get(identity)

    def delete(self, identity: str) -> bool:
        """Lets a response go; returns whether it was here."""
        with self._lock:
            gone = self._kept.pop(identity, None)
            self._held -= 0 if gone is None else gone.size
            return gone is not None

    def __len__(self) -> int:
        return len(self._kept)


def _size(value: Any) -> int:
    """Characters of all texts, and a few for everything else."""
    if isinstance(value, str):
        return len(value) + 2
    if isinstance(value, dict):
        return sum(len(key) + 4 + _size(part) for key, part in value.items())
    if isinstance(value, list | tuple):
        return sum(2 + _size(part) for part in value)
    return 8
