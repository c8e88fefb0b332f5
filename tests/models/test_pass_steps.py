"""A pass of many rows as compiled steps: the bits of the layers' own `forward`, and never of other layers."""

import copy
import importlib.util
import threading
from collections.abc import Callable, Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

if importlib.util.find_spec("llvmlite") is None:
    pytest.skip("llvmlite is not installed", allow_module_level=True)

from tests.models.listed_models import FORMS, SHAPE, named, packed
from tests.oracle import Shape, random_model

from gesso.config import LoraConfig
from gesso.models.adapters import attach, without_adapter
from gesso.models.cache import KVCache
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.listed_passes import KEPT, MOST_ROWS
from gesso.nn.pass_threads import FEW_ROWS
from gesso.nn.quant.base import Format
from gesso.nn.quant.integer import Int4, Int8

pytestmark = pytest.mark.numbers


def tokens(count: int, seed: int = 0) -> Tensor:
    return torch.randint(SHAPE.vocab - 3, (count,), generator=torch.Generator().manual_seed(seed))


def passes(model: DiffusionGemma, widths: Sequence[int], prompts: Sequence[int]) -> list[Tensor]:
    """Hidden states of prompts, of two steps of canvases behind them, and of these as they are read; and all keys and
    values."""
    cache, width = model.new_cache(len(widths), 128, max(widths)), sum(widths)
    conditioning = torch.ones(width, SHAPE.hidden)
    with torch.inference_mode():
        found = [model.encode_flat(tokens(sum(prompts)), prompts, cache)]
        found += [model.denoise_flat(tokens(width, 1), widths, cache, given) for given in (None, conditioning)]
        found.append(model.encode_flat(tokens(width, 2), widths, cache))
    kept = [layer.kv[:, :, layer.start : layer.end] for row in cache.rows for layer in row.layers]
    return [*found, *kept]


def by_layers(model: DiffusionGemma, widths: Sequence[int], prompts: Sequence[int]) -> list[Tensor]:
    """`passes` by the layers' own `forward`."""
    most, model.listed.most_rows = model.listed.most_rows, FEW_ROWS
    try:
        return passes(model, widths, prompts)
    finally:
        model.listed.most_rows = most


def same(found: Sequence[Tensor], expected: Sequence[Tensor]) -> bool:
    return all(torch.equal(*pair) for pair in zip(found, expected, strict=True))


def listed(model: DiffusionGemma) -> list[int]:
    """The numbers of rows that there are steps for, of the layers that there are."""
    return [rows for rows, steps in model.listed.passes.items() if steps is not None and steps._seen.is_same()]


@pytest.mark.parametrize(("dense", "experts"), FORMS, ids=named)
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_steps_give_the_bits_of_the_layers(dense: Format | None, experts: Format | None, threads: int) -> None:
    model, before = packed(dense, experts), torch.get_num_threads()
    expected = by_layers(model, [19], [5])
    torch.set_num_threads(threads)
    try:
        found = passes(model, [19], [5])
    finally:
        torch.set_num_threads(before)
    assert listed(model) == [5, 19]
    assert same(found, expected)


@pytest.mark.parametrize("form", [None, Int8()])
@given(widths=st.lists(st.integers(1, 70), min_size=1, max_size=3), data=st.data())
@settings(deadline=None, max_examples=15)
def test_any_rows_of_any_sequences_have_the_bits_of_the_layers(
    form: Format | None, widths: list[int], data: st.DataObject
) -> None:
    prompts = [data.draw(st.integers(1, 12)) for _ in widths]
    model = packed(form, form)
    assert same(passes(model, widths, prompts), by_layers(model, widths, prompts))


def test_a_canvas_alone_has_the_bits_that_it_has_beside_others() -> None:
    model = packed(None, None)
    alone = passes(model, [24], [7])
    others = [model.new_cache(1) for _ in range(3)]
    for number, cache in enumerate(others):
        model.encode(tokens(7 if number == 1 else 4)[None], cache)
    together = KVCache([row for cache in others for row in cache.rows])
    canvas = tokens(24, 1)
    with torch.inference_mode():
        found = model.denoise_flat(torch.cat((tokens(9, 5), canvas, tokens(30, 6))), [9, 24, 30], together)
    assert torch.equal(found[9:33], alone[1])


def test_other_weights_are_never_missed() -> None:
    model, other = packed(None, Int4()), packed(None, Int4(), seed=1)
    before = passes(model, [9], [4])
    changes: list[Callable[[], object]] = [
        lambda: model.load_state_dict(other.state_dict()),  # in place
        lambda: model.load_state_dict(packed(None, Int4(), seed=2).state_dict(), assign=True),
        lambda: setattr(model.layers[1], "mlp", other.layers[1].mlp),
        lambda: model.layers[2].decoder_scalar.fill_(0.25),
        lambda: setattr(model.layers[0].input_norm, "weight", nn.Parameter(torch.rand(SHAPE.hidden))),
        lambda: setattr(model.layers[1].attention.o_proj.weight, "data", torch.rand(SHAPE.hidden, 128)),
    ]
    for change in changes:
        change()
        found = passes(model, [9], [4])
        assert listed(model) == [4, 9]
        assert not same(found, before)
        assert same(found, by_layers(model, [9], [4]))
        before = found


def test_adapters_and_observers_are_asked_as_ever() -> None:
    model = packed(None, None)
    base = passes(model, [9], [4])
    attach(model, LoraConfig(rank=2))
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            nn.init.constant_(parameter, 0.05)
    adapted = passes(model, [9], [4])
    assert not listed(model)
    assert not same(adapted, base)
    assert same(adapted, by_layers(model, [9], [4]))
    steps = dict(model.listed.passes)
    with without_adapter(model):
        assert same(passes(model, [9], [4]), base)
        assert listed(model) == [4, 9]
        assert all(model.listed.passes[rows] is steps[rows] for rows in (4, 9))  # they were kept

    seen: list[int] = []
    model = packed(None, None)
    hook = model.layers[1].mlp.down_proj.register_forward_hook(lambda *_: seen.append(1))
    assert same(passes(model, [9], [4]), base)
    assert len(seen) == 4
    hook.remove()
    passes(model, [9], [4])
    assert len(seen) == 4


@pytest.mark.parametrize(
    ("shape", "lists"),
    [
        ({"expert_size": 192, "experts": 17}, True),
        ({"top_k": 16}, True),
        ({"bias": True}, False),
        ({"hidden": 96}, False),
        ({"mlp": 8192}, False),
    ],
)
def test_odd_shapes_give_the_bits_of_the_layers(shape: dict[str, int], lists: bool) -> None:
    """Where a product has a bias, a matrix no kernel or is not small, layers do it themselves."""
    model = random_model(Shape(**{**vars(SHAPE), **shape})).requires_grad_(False)
    cache, other = model.new_cache(1), model.new_cache(1)
    with torch.inference_mode():
        found = model.encode_flat(tokens(20), [20], cache)
        model.listed.most_rows = FEW_ROWS
        assert torch.equal(found, model.encode_flat(tokens(20), [20], other))
    assert listed(model) == ([20] if lists else [])


def test_lists_are_kept_for_few_numbers_of_rows_and_not_for_long_passes() -> None:
    model = packed(None, None)
    for rows in (*range(2, 4 + KEPT), 3 + KEPT, 5):
        passes(model, [rows], [rows])
    assert listed(model) == [*(rows for rows in range(4, 4 + KEPT - 1) if rows != 5), 3 + KEPT, 5]
    model = packed(None, None)
    with torch.inference_mode():
        model.encode_flat(tokens(MOST_ROWS + 1), [MOST_ROWS + 1], model.new_cache(1))
    assert not model.listed.passes


def test_copies_list_steps_of_their_own() -> None:
    model = packed(None, None)
    expected = passes(model, [9], [4])
    other = copy.deepcopy(model)
    assert not listed(other)
    for layer in model.layers:
        layer.mlp.down_proj.weight.data.zero_()
    assert same(passes(other, [9], [4]), expected)


def test_who_comes_while_another_thread_is_at_it_is_not_kept_waiting() -> None:
    model = packed(None, None)
    expected = passes(model, [9], [4])
    steps = model.listed.passes[9]
    assert steps is not None
    with steps._lock:
        assert same(passes(model, [9], [4]), expected)
    found: list[list[Tensor]] = []
    workers = [threading.Thread(target=lambda: found.append(passes(model, [9], [4]))) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(found) == 4
    assert all(same(each, expected) for each in found)
