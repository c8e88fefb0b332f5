"""Numbers the caches of the leader, so that its followers know which of theirs is meant."""

from itertools import count
from weakref import WeakKeyDictionary, finalize

from gesso.models.cache import KVCache, SequenceCache
from gesso.ranks.group import RankGroup


class CacheNumbers:
    """Holds what the ranks call each cache of the leader; announces new ones, and those that are gone."""

    def __init__(self, group: RankGroup) -> None:
        self._group = group
        self._numbers: WeakKeyDictionary[SequenceCache, int] = WeakKeyDictionary()
        self._counter = count()

    def announce(self, cache: KVCache, max_seq_len: int, max_write_len: int) -> KVCache:
        """Has every follower make its part of a new cache; returns the leader's part, which it was given."""
        for row in cache.rows if self._group.followers else ():
            number = self._numbers[row] = next(self._counter)
            self._group.announce("new_cache", number, max_seq_len, max_write_len)
            finalize(row, self._group.dropped.append, ("cache", number)).atexit = False
        return cache

    def __getitem__(self, row: SequenceCache) -> int:
        return self._numbers[row]

    def of(self, cache: KVCache) -> list[int]:
        """Returns the number of every row."""
        return [self._numbers[row] for row in cache.rows]
