"""Stored prefixes: what is restored is what was encoded, bit for bit, and never more than allowed."""

import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import Shape, randomise

from gesso.engine.prefix_store import PrefixStore
from gesso.models.cache import KVCache, SequenceCache
from gesso.models.diffusion_gemma import DiffusionGemma

CHUNK = 16


@pytest.fixture(scope="module", params=["sf", "ss", "f"])
def model(request: pytest.FixtureRequest) -> DiffusionGemma:
    shape = Shape(layers=request.param, vocab=64, hidden=24, mlp=24, window=21, canvas=8)
    model = DiffusionGemma(shape.config())
    randomise(model, seed=2)
    return model


def read(model: DiffusionGemma, ids: list[int], store: PrefixStore | None = None, room: int = 2**40) -> SequenceCache:
    """Encode a prompt chunk by chunk, from the store as far as it goes."""
    row = model.new_cache(1, len(ids) + 8, CHUNK).rows[0]
    if store is not None:
        store.restore(ids, None, row)
    while row.length < len(ids):
        count = min(len(ids) - row.length, CHUNK - row.length % CHUNK)
        model.encode_flat(torch.tensor(ids[row.length : row.length + count]), [count], KVCache([row]))
        if store is not None:
            store.put(ids, None, row, room)
    return row


def same(one: SequenceCache, other: SequenceCache) -> bool:
    layers = zip(one.layers, other.layers, strict=True)
    return one.length == other.length and all(
        torch.equal(a.kv[:, :, a.start : a.end], b.kv[:, :, b.start : b.end]) for a, b in layers
    )


def prompt(seed: int, length: int) -> list[int]:
    return random.Random(seed).choices(range(64), k=length)


def test_a_longer_prompt_goes_on_where_a_shorter_one_ended(model: DiffusionGemma) -> None:
    store, first = PrefixStore(model.config, CHUNK), prompt(1, 5 * CHUNK + 3)
    read(model, first, store)
    for ids in (first + prompt(2, 30), first[: 3 * CHUNK + 5] + prompt(3, 40), first, first[: 2 * CHUNK]):
        fresh = model.new_cache(1, len(ids) + 8, CHUNK).rows[0]
        kept = store.restore(ids, None, fresh)
        whole = min(len(ids) - 1, next((i for i, (a, b) in enumerate(zip(ids, first, strict=False)) if a != b), 10**6))
        assert kept == min(whole, len(first)) // CHUNK * CHUNK
        assert same(read(model, ids, store), read(model, ids))


def test_another_adapter_and_an_unlike_prompt_get_nothing(model: DiffusionGemma) -> None:
    store, ids = PrefixStore(model.config, CHUNK), prompt(1, 3 * CHUNK)
    read(model, ids, store)
    row = model.new_cache(1, 100, CHUNK).rows[0]
    assert store.restore(ids, "other", row) == 0
    assert store.restore([ids[0] ^ 1, *ids[1:]], None, row) == 0
    assert row.length == 0


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_under_any_bound_results_are_the_same_and_the_bound_holds(data: st.DataObject) -> None:
    shape = Shape(layers="sf", vocab=64, hidden=24, mlp=24, window=21, canvas=8)
    model = DiffusionGemma(shape.config())
    randomise(model, seed=2)
    store = PrefixStore(model.config, CHUNK)
    size = data.draw(st.integers(0, 12), label="chunks that have room") * 9000
    stems = [prompt(seed, 4 * CHUNK) for seed in range(3)]
    for _ in range(data.draw(st.integers(1, 8), label="requests")):
        stem = data.draw(st.sampled_from(stems))[: data.draw(st.integers(1, 4 * CHUNK))]
        ids = stem + prompt(data.draw(st.integers(0, 3)), data.draw(st.integers(0, 40)))
        assert same(read(model, ids, store, size), read(model, ids))
        assert store.bytes <= size
    held = store.bytes
    store.shrink(held // 2)
    assert store.bytes <= held // 2
    store.clear()
    assert store.bytes == 0
    assert store.restore(stems[0], None, model.new_cache(1, 100, CHUNK).rows[0]) == 0
