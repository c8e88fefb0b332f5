"""Conversations that `previous_response_id` goes on from: the newest, in memory, within a bound."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gesso.sized_cache import SizedCache

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


class ResponseStore:
    """Keeps responses by id; the one that was used least recently goes first. Of any thread."""

    def __init__(self, most: int = MOST_RESPONSES, characters: int = MOST_CHARACTERS) -> None:
        # Characters stand for bytes, which they are of most texts.
        self._kept: SizedCache[str, StoredResponse] = SizedCache(characters, max_entries=most)

    def put(self, body: dict[str, Any], given: Sequence[dict[str, Any]]) -> None:
        """Keeps a response; one that is larger than the bound is not kept."""
        self._kept.put(body["id"], StoredResponse(body, tuple(given)), _size(body) + _size(given))

    def get(self, identity: str) -> StoredResponse | None:
        """Finds a response, which is the newest then; None where it is not here, or no longer."""
        return self._kept.get(identity)

    def delete(self, identity: str) -> bool:
        """Lets a response go; returns whether it was here."""
        return self._kept.pop(identity) is not None

    def __len__(self) -> int:
        return self._kept.stats.entries


def _size(value: Any) -> int:
    """Characters of all texts, and a few for everything else."""
    if isinstance(value, str):
        return len(value) + 2
    if isinstance(value, dict):
        return sum(len(key) + 4 + _size(part) for key, part in value.items())
    if isinstance(value, list | tuple):
        return sum(2 + _size(part) for part in value)
    return 8
