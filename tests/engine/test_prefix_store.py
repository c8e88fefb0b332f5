"""Stored prefixes: what is restored is what was encoded, bit for bit, and never more than allowed."""

import random
from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import Shape, randomise

from gesso.engine.prefix_store import PrefixStore
from gesso.models.cache import SequenceCache
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.runner.model_runner import ModelRunner
from gesso.runner.prompt_input import PromptInput
from gesso.runner.protocol import PrefillBatch, PrefillItem

CHUNK = 16


@pytest.fixture(scope="module", params=["sf", "ss", "f"])
def runner(request: pytest.FixtureRequest) -> ModelRunner:
    shape = Shape(layers=request.param, vocab=64, hidden=24, mlp=24, window=21, canvas=8)
    model = DiffusionGemma(shape.config())
    randomise(model, seed=2)
    return ModelRunner(model)


def read(runner: ModelRunner, ids: list[int], store: PrefixStore | None = None, room: int = 2**40) -> SequenceCache:
    """Encode a prompt chunk by chunk, from the store as far as it goes."""
    chunks, cache = PromptInput(tuple(ids)).chunks(CHUNK), runner.new_cache(len(ids) + 8, CHUNK)
    kept = 0 if store is None else store.restore(chunks, None, cache)
    for number, chunk in enumerate(chunks):
        if chunk.start < kept:
            continue
        runner.prefill(PrefillBatch(None, (PrefillItem(0, cache, chunk.key.ids),)))
        if store is not None:
            store.put(chunks, number, None, cache, room)
    return runner.cache(cache)


def restored(runner: ModelRunner, store: PrefixStore, ids: list[int], adapter: str | None = None) -> int:
    """How many tokens the store has of a prompt."""
    cache = runner.new_cache(len(ids) + 8, CHUNK)
    kept = store.restore(PromptInput(tuple(ids)).chunks(CHUNK), adapter, cache)
    assert runner.cache(cache).length == kept
    return kept


def same(one: SequenceCache, other: SequenceCache) -> bool:
    layers = zip(one.layers, other.layers, strict=True)
    return one.length == other.length and all(
        torch.equal(a.kv[:, :, a.start : a.end], b.kv[:, :, b.start : b.end]) for a, b in layers
    )


def prompt(seed: int, length: int) -> list[int]:
    return random.Random(seed).choices(range(64), k=length)


def test_a_longer_prompt_goes_on_where_a_shorter_one_ended(runner: ModelRunner) -> None:
    store, first = PrefixStore(runner), prompt(1, 5 * CHUNK + 3)
    read(runner, first, store)
    for ids in (first + prompt(2, 30), first[: 3 * CHUNK + 5] + prompt(3, 40), first, first[: 2 * CHUNK]):
        kept = restored(runner, store, ids)
        whole = min(len(ids) - 1, next((i for i, (a, b) in enumerate(zip(ids, first, strict=False)) if a != b), 10**6))
        assert kept == min(whole, len(first)) // CHUNK * CHUNK
        assert same(read(runner, ids, store), read(runner, ids))


def test_another_adapter_and_an_unlike_prompt_get_nothing(runner: ModelRunner) -> None:
    store, ids = PrefixStore(runner), prompt(1, 3 * CHUNK)
    read(runner, ids, store)
    assert restored(runner, store, ids, "other") == 0
    assert restored(runner, store, [ids[0] ^ 1, *ids[1:]]) == 0


def test_a_name_that_means_another_adapter_gets_nothing(runner: ModelRunner) -> None:
    store, ids = PrefixStore(runner), prompt(1, 3 * CHUNK)
    cache = runner.new_cache(len(ids) + 8, CHUNK)
    chunks = PromptInput(tuple(ids)).chunks(CHUNK)
    read(runner, ids, store)
    for number, chunk in enumerate(chunks):
        item = PrefillItem(0, cache, chunk.key.ids)
        runner.prefill(PrefillBatch(None, (item,)))
        store.put(chunks, number, "red", cache, 2**40)
    assert restored(runner, store, ids, "red") > 0
    runner.load_adapters({})
    assert restored(runner, store, ids, "red") == 0
    assert restored(runner, store, ids) > 0


def test_a_copy_that_fails_leaves_no_trace(runner: ModelRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, ids = runner.copy_prefix, prompt(1, 3 * CHUNK)
    for faulty in range(6):
        made, store = iter(range(6)), PrefixStore(runner)

        def copy_prefix(*given: object, made: Iterator[int] = made, faulty: int = faulty) -> object:
            if next(made) == faulty:
                raise MemoryError
            return whole(*given)  # type: ignore[arg-type]

        monkeypatch.setattr(runner, "copy_prefix", copy_prefix)
        with pytest.raises(MemoryError):
            read(runner, ids, store)
        monkeypatch.undo()
        assert restored(runner, store, [*ids, 0]) == faulty // 2 * CHUNK
        store.clear()
        assert store.bytes == 0


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_under_any_bound_results_are_the_same_and_the_bound_holds(data: st.DataObject) -> None:
    shape = Shape(layers="sf", vocab=64, hidden=24, mlp=24, window=21, canvas=8)
    model = DiffusionGemma(shape.config())
    randomise(model, seed=2)
    runner = ModelRunner(model)
    store = PrefixStore(runner)
    size = data.draw(st.integers(0, 12), label="chunks that have room") * 9000
    stems = [prompt(seed, 4 * CHUNK) for seed in range(3)]
    for _ in range(data.draw(st.integers(1, 8), label="requests")):
        stem = data.draw(st.sampled_from(stems))[: data.draw(st.integers(1, 4 * CHUNK))]
        ids = stem + prompt(data.draw(st.integers(0, 3)), data.draw(st.integers(0, 40)))
        assert same(read(runner, ids, store, size), read(runner, ids))
        assert store.bytes <= size
    held = store.bytes
    store.shrink(held // 2)
    assert store.bytes <= held // 2
    store.clear()
    assert store.bytes == 0
    assert restored(runner, store, stems[0]) == 0
