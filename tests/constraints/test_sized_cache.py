"""The cache that is bounded by bytes, and what the bytes of an object are."""

import random
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from constraints.tables import automaton_of
from gesso.constraints.inference import Lattice
from gesso.constraints.sized_cache import CacheStats, SizedCache, held_bytes


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


@dataclass(frozen=True, slots=True)
class _Slots:
    array: object
    more: tuple[object, ...] = ()


_Slots.__module__ = "gesso.made_for_a_test"


def test_bytes_are_counted_once_whoever_shares_them() -> None:
    array, tensor = np.zeros(10), torch.zeros(6)
    view = array[3:].reshape(7, 1)
    assert held_bytes(array) == 80
    assert held_bytes(_Slots(array, (tensor, {"key": [view, tensor[1:]]}))) == held_bytes("key") + 80 + 24
    assert held_bytes(torch.from_numpy(array), array) == 80
    assert held_bytes(random.Random()) == 0


def test_a_lattice_knows_its_size_before_its_first_use() -> None:

    automaton = automaton_of([[0, 1, -1], [-1, 1, -1]], accepting=[1], end_tokens=[2])
    lattice = Lattice(automaton)
    lattice.prepare()
    before = held_bytes(lattice)
    assert before > held_bytes(automaton) > 0
    lattice.posterior(lattice.emissions(torch.zeros(4, 3)), automaton.start, 4)
    assert held_bytes(lattice) == pytest.approx(before, abs=64)
