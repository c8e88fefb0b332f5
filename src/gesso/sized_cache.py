"""Defines a cache bounded by the bytes of what it holds."""

import sys
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from threading import Lock
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class CacheStats:
    """Holds a look at one cache, or at several of one kind; counts are since their start."""

    bytes: int = 0
    """Held now."""
    entries: int = 0
    hits: int = 0
    misses: int = 0
    evictions: int = 0
    """Values let go for want of room, those that were larger than the whole cache included."""

    def __add__(self, other: "CacheStats") -> "CacheStats":
        return CacheStats(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))


class SizedCache(Generic[Key, Value]):
    """Keeps values by key, of which the least recently used are let go when their bytes, or their number, exceed the
    bound.

    A value larger than the whole bound is not kept. Several threads may use a cache at once.
    """

    def __init__(self, max_bytes: int, max_entries: int = sys.maxsize) -> None:
        self.max_bytes, self._max_entries = max_bytes, max_entries
        self._lock = Lock()
        self._entries: OrderedDict[Key, tuple[Value, int]] = OrderedDict()
        self._bytes = self._hits = self._misses = self._evictions = 0

    def get(self, key: Key) -> Value | None:
        """Returns the value of `key`, which becomes the most recently used one; None where there is none."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                self._misses += 1
                return None
            self._hits += 1
            self._entries.move_to_end(key)
            return entry[0]

    def peek(self, key: Key) -> Value | None:
        """Returns the value of `key` as `get` does, and counts no use of it."""
        with self._lock:
            entry = self._entries.get(key)
            return None if entry is None else entry[0]

    def put(self, key: Key, value: Value, size: int) -> None:
        """Keeps a value of `size` bytes, in the place of an earlier one of the same key."""
        with self._lock:
            if (earlier := self._entries.pop(key, None)) is not None:
                self._bytes -= earlier[1]
            self._entries[key] = value, size
            self._bytes += size
            if size > self.max_bytes:
                self._entries.move_to_end(key, last=False)
            while self._bytes > self.max_bytes or len(self._entries) > self._max_entries:
                _, (_, freed) = self._entries.popitem(last=False)
                self._bytes -= freed
                self._evictions += 1

    def pop(self, key: Key) -> Value | None:
        """Lets the value of `key` go and returns it; None where there is none."""
        with self._lock:
            value, size = self._entries.pop(key, (None, 0))
            self._bytes -= size
            return value

    @property
    def stats(self) -> CacheStats:
        """Says how things stand."""
        with self._lock:
            return CacheStats(self._bytes, len(self._entries), self._hits, self._misses, self._evictions)
