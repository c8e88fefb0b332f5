"""The cache that is bounded by bytes."""

from hypothesis import given
from hypothesis import strategies as st

from gesso.sized_cache import CacheStats, SizedCache


def test_a_peek_is_no_use() -> None:
    cache: SizedCache[str, int] = SizedCache(2)
    cache.put("a", 1, 1)
    cache.put("b", 2, 1)
    assert (cache.peek("a"), cache.peek("c")) == (1, None)
    cache.put("d", 3, 1)
    assert cache.peek("a") is None  # it went first, as if nobody had looked
    assert (cache.stats.hits, cache.stats.misses) == (0, 0)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 60)), max_size=60), st.integers(1, 100))
def test_it_never_holds_more_than_its_bound_and_lets_the_oldest_go(puts: list[tuple[int, int]], bound: int) -> None:
    cache: SizedCache[int, int] = SizedCache(bound)
    kept: dict[int, int] = {}
    for key, size in puts:
        cache.put(key, size, size)
        kept.pop(key, None)
        if size <= bound:
            kept[key] = size
            while sum(kept.values()) > bound:
                del kept[next(iter(kept))]
        assert cache.stats.bytes == sum(kept.values()) <= bound
    assert {key for key in range(10) if cache.get(key) is not None} == set(kept)
    assert cache.stats.entries == len(kept)


def test_what_was_used_last_stays() -> None:
    cache: SizedCache[str, int] = SizedCache(20)
    cache.put("a", 1, 10)
    cache.put("b", 2, 10)
    assert cache.get("a") == 1
    cache.put("c", 3, 10)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (1, None, 3)
    assert cache.stats == CacheStats(bytes=20, entries=2, hits=3, misses=1, evictions=1)


def test_what_is_larger_than_the_bound_drives_nothing_out() -> None:
    cache: SizedCache[str, int] = SizedCache(20)
    cache.put("a", 1, 15)
    cache.put("large", 2, 21)
    assert cache.get("a") == 1
    assert cache.get("large") is None


def test_the_number_of_values_may_be_bounded_too() -> None:
    cache: SizedCache[str, int] = SizedCache(20, max_entries=2)
    for place, key in enumerate("abc"):
        cache.put(key, place, 1)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (None, 1, 2)
    assert (cache.stats.bytes, cache.stats.entries) == (2, 2)


def test_what_is_taken_out_makes_room() -> None:
    cache: SizedCache[str, int] = SizedCache(2)
    cache.put("a", 1, 1)
    cache.put("b", 2, 1)
    assert (cache.pop("a"), cache.pop("a")) == (1, None)
    cache.put("c", 3, 1)
    assert (cache.get("b"), cache.get("c")) == (2, 3)
