"""Remembers which server has seen the beginning of a prompt, so that what goes on from it goes there.

A prompt is cut into parts: every message by itself, and a long one every 256 characters. The digest of a part holds
those of all before it, so equal digests mean equal beginnings. A table that forgets what was used least recently has
the servers of each.
"""

import hashlib
import json
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

PART = 256
"""Characters of one part."""
MOST_PARTS = 256
"""Parts of one prompt; what lies behind them has no say."""
MOST_ENTRIES = 200_000
HOLDERS = 4
"""Servers that are remembered for one beginning, the latest first."""


def prefix_digests(path: str, body: Mapping[str, Any]) -> list[bytes]:
    """Returns the digests of a request's beginnings, from the shortest to the longest; none where it has no prompt."""
    digests: list[bytes] = []
    # Another model, adapter or set of tools is another prompt from its first token on.
    state = hashlib.blake2b(_json([path.rpartition("/")[0], body.get("model"), body.get("tools")]), digest_size=16)
    for part in _parts(body):
        state.update(len(part).to_bytes(4, "big") + part)
        digests.append(state.digest())
        if len(digests) == MOST_PARTS:
            break
    return digests


def _parts(body: Mapping[str, Any]) -> Iterator[bytes]:
    for name in ("system", "instructions"):
        if body.get(name):
            yield from _cut(name, body[name])
    for name in ("messages", "input", "prompt", "text"):
        given = body.get(name)
        if isinstance(given, str):
            yield from _cut(name, given)
        elif isinstance(given, list) and given and isinstance(given[0], dict):
            for message in given:
                if isinstance(message, dict):
                    yield from _cut(str(message.get("role")), message.get("content"))
        elif isinstance(given, list):
            yield from _cut(name, given)


def _cut(name: str, content: Any) -> Iterator[bytes]:
    text = content if isinstance(content, str) else _json(content).decode()
    yield name.encode("utf-8", "surrogatepass") + b"\0" + text[:PART].encode("utf-8", "surrogatepass")
    for start in range(PART, min(len(text), PART * MOST_PARTS), PART):
        yield text[start : start + PART].encode("utf-8", "surrogatepass")


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True).encode()


class PrefixTable:
    """Keeps the servers that hold each beginning. Of one event loop."""

    def __init__(self, most: int = MOST_ENTRIES) -> None:
        self._most = most
        self._holders: OrderedDict[bytes, tuple[str, ...]] = OrderedDict()

    def find(self, digests: Sequence[bytes]) -> tuple[int, tuple[str, ...]]:
        """Finds the longest beginning that is known: its number of parts, and who holds it, the latest first."""
        for place in range(len(digests) - 1, -1, -1):
            if holders := self._holders.get(digests[place]):
                return place + 1, holders
        return 0, ()

    def put(self, digests: Sequence[bytes], server: str) -> None:
        """Notes that a server has now seen all these beginnings."""
        for digest in digests:
            others = (name for name in self._holders.get(digest, ()) if name != server)
            self._holders[digest] = (server, *others)[:HOLDERS]
            self._holders.move_to_end(digest)
        while len(self._holders) > self._most:
            self._holders.popitem(last=False)

    def forget(self, server: str) -> None:
        """Forgets a server whose memory is gone."""
        for digest, holders in list(self._holders.items()):
            if server in holders:
                left = tuple(name for name in holders if name != server)
                if left:
                    self._holders[digest] = left
                else:
                    del self._holders[digest]

    def __len__(self) -> int:
        return len(self._holders)


def keep_together(loads: Mapping[str, int], holders: Sequence[str], parts: int, slack: int) -> str | None:
    """Returns the server that a request with a known beginning goes to; None where load sends it elsewhere.

    It is the least busy holder, unless that one is ahead of the least busy server by more requests than there are parts
    in the beginning, and `slack` at most.

    Args:
        loads: requests under way, of each server that may be asked.
        holders: servers that have seen the beginning, the latest first.
        parts: of the beginning.
    """
    holding = [name for name in holders if name in loads]
    if not holding:
        return None
    chosen = min(holding, key=lambda name: (loads[name], holders.index(name)))
    return chosen if loads[chosen] - min(loads.values()) <= min(parts, slack) else None
