"""A token as one list of compiled steps: the bits of the layers' own `forward`, and never of other layers."""

import copy
import importlib.util
import pickle
import threading
from collections.abc import Callable

import pytest
import torch
from torch import nn

if importlib.util.find_spec("llvmlite") is None:
    pytest.skip("llvmlite is not installed", allow_module_level=True)

from tests.models.listed_models import FORMS, SHAPE, named, packed
from tests.oracle import Shape, random_model

from gesso.config import LoraConfig
from gesso.kernels.host import threads as host_threads
from gesso.models import listed_passes
from gesso.models.adapters import attach, without_adapter
from gesso.models.cache import KVCache
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.token_steps import TokenSteps
from gesso.nn import float32_products
from gesso.nn.quant.base import Format
from gesso.nn.quant.integer import Int4, Int8

pytestmark = pytest.mark.numbers


def tokens(count: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(SHAPE.vocab - 3, (count,), generator=torch.Generator().manual_seed(seed))


def encoded(model: DiffusionGemma, count: int = 14, prompt: int = 4) -> tuple[torch.Tensor, KVCache]:
    """Hidden states of tokens that are encoded one by one behind a prompt."""
    cache = model.new_cache(1)
    model.encode(tokens(prompt)[None], cache)
    with torch.inference_mode():
        return torch.cat([model.encode_flat(token[None], [1], cache) for token in tokens(count, seed=1)]), cache


@pytest.fixture
def ordinary(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[torch.Tensor, KVCache]]:
    """`encoded` by the layers' own `forward`."""

    def run(model: DiffusionGemma, *args: int) -> tuple[torch.Tensor, KVCache]:
        with monkeypatch.context() as patch:
            patch.setattr(TokenSteps, "run", lambda *_: None)
            return encoded(model, *args)

    return run


Ordinary = Callable[..., tuple[torch.Tensor, KVCache]]


def listed(model: DiffusionGemma) -> bool:
    steps = model.listed.tokens.get(1)
    return steps is not None and steps._seen.is_same()


@pytest.mark.parametrize(("dense", "experts"), FORMS, ids=named)
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_steps_give_the_bits_of_the_layers(
    dense: Format | None, experts: Format | None, threads: int, ordinary: Ordinary
) -> None:
    model, before = packed(dense, experts), torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        expected, kept = ordinary(model)
        found, cache = encoded(model)
    finally:
        torch.set_num_threads(before)
    assert listed(model)
    assert torch.equal(found, expected)
    for own, other in zip(cache.rows[0].layers, kept.rows[0].layers, strict=True):
        assert (own.start, own.end) == (other.start, other.end)
        assert torch.equal(own.kv[:, :, own.start : own.end], other.kv[:, :, other.start : other.end])


@pytest.mark.parametrize("first", [torch.inference_mode, torch.no_grad])
def test_steps_that_were_listed_in_one_mode_serve_in_another(first: Callable[[], object]) -> None:
    model = packed(Int4(), Int4())
    found = []
    for mode in (first, torch.no_grad, torch.inference_mode):
        cache = model.new_cache(1)
        with mode():
            found += [model.encode_flat(token[None], [1], cache) for token in tokens(3)]
    assert listed(model)
    assert all(torch.equal(found[i], found[3 * turn + i]) for turn in (1, 2) for i in range(3))


def test_steps_serve_any_sequence_by_turns(ordinary: Ordinary) -> None:
    model = packed(Int4(), Int4())
    caches = [model.new_cache(1), model.new_cache(1, 40, 8)]
    for cache, prompt in zip(caches, (3, 9), strict=True):
        model.encode(tokens(prompt)[None], cache)
    with torch.inference_mode():
        found = [model.encode_flat(token[None], [1], cache) for token in tokens(10, seed=1) for cache in caches]
    for number, prompt in enumerate((3, 9)):
        assert torch.equal(torch.cat(found[number::2]), ordinary(model, 10, prompt)[0])


@pytest.mark.parametrize("form", [Int8(), None])
def test_a_token_alone_has_the_bits_that_it_has_beside_another(form: Format | None) -> None:
    model = packed(Int4() if form else None, form)
    alone, _ = encoded(model, 5)
    caches = [model.new_cache(1), model.new_cache(1)]
    for cache, prompt in zip(caches, (4, 7), strict=True):
        model.encode(tokens(prompt)[None], cache)
    both = KVCache([row for cache in caches for row in cache.rows])
    with torch.inference_mode():
        rows = [model.encode_flat(token.repeat(2), [1, 1], both)[:1] for token in tokens(5, seed=1)]
    assert torch.equal(torch.cat(rows), alone)


@pytest.mark.parametrize(("dense", "experts"), FORMS, ids=named)
def test_a_token_of_each_of_several_sequences_has_the_bits_of_the_layers(
    dense: Format | None, experts: Format | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sequences of other lengths, in another order with every pass."""
    model, prompts, found = packed(dense, experts), [4, 1, 9, 6, 2], list[list[torch.Tensor]]()
    for listing in (True, False):
        if not listing:
            monkeypatch.setattr(TokenSteps, "run", lambda *_: None)
        caches = [model.new_cache(1) for _ in prompts]
        for cache, prompt in zip(caches, prompts, strict=True):
            model.encode(tokens(prompt, seed=prompt)[None], cache)
        rows = [cache.rows[0] for cache in caches]
        with torch.inference_mode():
            seen = []
            for turn in range(12):
                rows = rows[turn % 3 :] + rows[: turn % 3]
                seen.append(model.encode_flat(tokens(len(rows), seed=turn), [1] * len(rows), KVCache(rows)))
        found.append([*seen, *(layer.kv[:, :, layer.start : layer.end] for row in rows for layer in row.layers)])
    steps = model.listed.tokens[len(prompts)]
    assert steps is not None
    assert all(torch.equal(*pair) for pair in zip(*found, strict=True))


def test_other_weights_are_never_missed(ordinary: Ordinary) -> None:
    model, other = packed(Int4(), Int4()), packed(Int4(), Int4(), seed=1)
    encoded(model)
    changes: list[Callable[[], object]] = [
        lambda: model.load_state_dict(other.state_dict()),  # in place
        lambda: model.load_state_dict(packed(Int4(), Int4(), seed=2).state_dict(), assign=True),
        lambda: setattr(model.layers[1], "mlp", other.layers[1].mlp),
        lambda: setattr(model.layers[0].router.scale, "data", torch.rand(SHAPE.hidden)),
        lambda: model.layers[2].encoder_scalar.fill_(0.25),
        lambda: setattr(model.layers[0].input_norm, "weight", nn.Parameter(torch.rand(SHAPE.hidden))),
        lambda: setattr(model.layers[1].mlp.down_proj.scales, "data", model.layers[1].mlp.down_proj.scales * 2),
    ]
    before = encoded(model)[0]
    for change in changes:
        change()
        found = encoded(model)[0]
        assert listed(model)
        assert not torch.equal(found, before)
        assert torch.equal(found, ordinary(model)[0])
        before = found


def test_adapters_and_observers_are_asked_as_ever(ordinary: Ordinary) -> None:
    model = packed(Int4(), Int4())
    base, _ = encoded(model)
    attach(model, LoraConfig(rank=2))
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            nn.init.constant_(parameter, 0.05)
    adapted, _ = encoded(model)
    assert not listed(model)
    assert not torch.equal(adapted, base)
    assert torch.equal(adapted, ordinary(model)[0])
    with without_adapter(model):
        assert torch.equal(encoded(model)[0], base)
        assert listed(model)
    assert torch.equal(encoded(model)[0], adapted)

    seen: list[int] = []
    model = packed(Int4(), Int4())
    encoded(model)
    hook = model.layers[1].mlp.register_forward_hook(lambda *_: seen.append(1))
    assert torch.equal(encoded(model, 3)[0], base[:3])
    assert len(seen) == 3 + 1  # the prompt
    hook.remove()
    encoded(model, 3)
    assert len(seen) == 3 + 1


@pytest.mark.parametrize(
    "shape",
    [
        {"expert_size": 192, "experts": 17},
        {"bias": True},
        {"head_dim": 48, "window": 1},
        {"top_k": 16},
        {"heads": 65, "kv_heads": 1},
    ],
)
def test_odd_shapes_give_the_bits_of_the_layers(shape: dict[str, int], ordinary: Ordinary) -> None:
    """Where a product has a bias, or a key head many query heads, layers do it themselves."""
    model = packed(Int8(), Int8(), Shape(**{**vars(SHAPE), **shape}))
    assert torch.equal(encoded(model)[0], ordinary(model)[0])
    assert listed(model) == ({"bias", "heads"}.isdisjoint(shape))


def test_whole_weights_that_no_kernel_reads_have_no_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    model = random_model(Shape(**{**vars(SHAPE), "hidden": 96}))
    encoded(model)
    assert not model.listed.tokens
    model = random_model(SHAPE)
    monkeypatch.setattr(float32_products, "LARGEST", SHAPE.hidden * SHAPE.mlp - 1)
    float32_products._fits.cache_clear()
    encoded(model)
    assert not listed(model)
    float32_products._fits.cache_clear()


def test_copies_list_steps_of_their_own() -> None:
    model = packed(Int4(), Int4())
    expected, _ = encoded(model)
    assert pickle.loads(pickle.dumps(model.listed.tokens)) == {1: None}
    other = copy.deepcopy(model)
    assert other.listed.tokens == {1: None}
    for layer in model.layers:
        layer.mlp.down_proj.get_buffer("codes").zero_()
    assert torch.equal(encoded(other)[0], expected)


def test_who_comes_while_another_thread_is_at_it_is_not_kept_waiting(ordinary: Ordinary) -> None:
    model = packed(Int4(), Int4())
    expected, _ = ordinary(model)
    encoded(model)
    steps = model.listed.tokens[1]
    assert steps is not None
    with steps._lock:
        assert torch.equal(encoded(model)[0], expected)
    found: list[torch.Tensor] = []
    workers = [threading.Thread(target=lambda: found.append(encoded(model)[0])) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(found) == 4
    assert all(torch.equal(each, expected) for each in found)


def test_a_helper_that_is_asleep_is_woken_for_its_step(monkeypatch: pytest.MonkeyPatch, ordinary: Ordinary) -> None:
    """Threads that outnumber processors do not look on between steps: each shared step wakes them."""
    settled: list[int] = []
    settle = host_threads._Team.settle
    monkeypatch.setattr(host_threads._Team, "settle", lambda team, left: (settled.append(left), settle(team, left)))
    from gesso.kernels.host import packed as products

    monkeypatch.setattr(products, "MULTIPLIED_ALONE", 0)  # all products are shared
    model, before = packed(Int4(), Int4()), torch.get_num_threads()
    torch.set_num_threads(64)
    try:
        expected, _ = ordinary(model, 2)
        settled.clear()
        assert torch.equal(encoded(model, 2)[0], expected)
    finally:
        torch.set_num_threads(before)
    assert any(left > 0 for left in settled)


def test_steps_are_for_causal_passes_of_one_token_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    class Counted(TokenSteps):
        def run(self, *args: object) -> torch.Tensor | None:
            made.append(1)
            return super().run(*args)

    monkeypatch.setattr(listed_passes, "TokenSteps", Counted)
    model = packed(Int4(), Int4())
    cache = model.new_cache(1)
    with torch.inference_mode():
        model.encode_flat(tokens(3), [3], cache)
        model.denoise_flat(tokens(1), [1], cache)
        assert not made
        model.encode_flat(tokens(1), [1], cache)
    assert made == [1]
