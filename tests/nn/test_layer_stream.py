"""Modules whose weights stream: what they compute, how many are staged, and that copies begin beside the work."""

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gesso.errors import OptionError
from gesso.nn.device_store import CudaStore
from gesso.nn.layer_stream import LayerStream
from gesso.nn.quant.integer import Int8
from gesso.nn.quant.layers import QuantizedLinear
from nn.slow_store import SlowStore


def layers(count: int) -> list[nn.Module]:
    torch.manual_seed(0)
    return [nn.Linear(8, 8).requires_grad_(False) for _ in range(count)]


def run(modules: list[nn.Module], x: Tensor) -> Tensor:
    for module in modules:
        x = module(x)
    return x


@pytest.mark.parametrize("count", [3, 4, 5])
def test_passes_are_those_of_weights_that_stay(count: int) -> None:
    x, store = torch.randn(3, 8), SlowStore()
    expected = run(layers(count), x)
    modules = layers(count)
    LayerStream(modules, store)
    for _ in range(3):
        assert torch.equal(run(modules, x), expected)
    # In order, one after another, from pass to pass, and each once in a pass.
    assert [held for held, _ in store.contents] == [number % count for number in range(3 * count + 1)]
    assert [place for _, place in store.contents] == [number % 2 for number in range(3 * count + 1)]


def test_two_places_are_all_that_is_taken() -> None:
    modules, store = layers(5), SlowStore()
    stream = LayerStream(modules, store)
    one = sum(tensor.nbytes for tensor in modules[0].state_dict().values())
    assert (len(store.places), store.bytes, stream.bytes) == (2, 2 * one, 5 * one)
    run(modules, torch.randn(2, 8))
    assert len(store.places) == 2


def test_a_copy_is_under_way_while_the_layer_before_computes() -> None:
    modules, store = layers(4), SlowStore()
    LayerStream(modules, store)
    seen: list[list[int]] = []

    def note(*_: object) -> None:  # while the layer computes: copies that were begun and have not landed
        begun = {number for what, number in store.events if what == "begun"}
        seen.append(sorted(begun - {number for what, number in store.events if what == "landed"}))

    for module in modules:
        module.register_forward_pre_hook(note)
    run(modules, torch.randn(2, 8))
    run(modules, torch.randn(2, 8))
    assert seen == [[number + 1] for number in range(8)]
    # And none began before the work of the layer that was in its place.
    for number in range(2, 9):
        before = store.events[: store.events.index(("begun", number))]
        done = [mark for what, mark in before if what == "worked"]
        assert len(done) >= 2 + (number - 1)


def test_two_layers_are_copied_once() -> None:
    modules, store = layers(2), SlowStore()
    LayerStream(modules, store)
    for _ in range(3):
        run(modules, torch.randn(2, 8))
    assert store.contents == [(0, 0), (1, 1)]


def test_a_pass_that_is_broken_off_leaves_the_next_one_right() -> None:
    x, store = torch.randn(3, 8), SlowStore()
    expected = run(layers(5), x)
    modules = layers(5)
    LayerStream(modules, store)

    def fail(*_: object) -> None:
        raise RuntimeError("broken off")

    for number in range(5):
        hook = modules[number].register_forward_hook(fail)
        with pytest.raises(RuntimeError, match="broken off"):
            run(modules, x)
        hook.remove()
        assert torch.equal(run(modules, x), expected)


def test_a_copy_that_is_broken_off_leaves_the_next_pass_right() -> None:
    """Ctrl-C between two tensors: the place holds one of the new module and one of the old."""

    class CutStore(SlowStore):
        left = -1

        def copy(self, source: Mapping[str, Tensor], target: Mapping[str, Tensor], after: Any) -> Any:
            self.left -= 1
            if self.left == 0:
                name = next(iter(source))
                target[name].copy_(source[name])
                raise KeyboardInterrupt
            return super().copy(source, target, after)

    x = torch.randn(3, 8)
    expected = run(layers(5), x)
    for cut in range(1, 10):
        modules, store = layers(5), CutStore()
        LayerStream(modules, store)
        store.left = cut
        with pytest.raises(KeyboardInterrupt):
            _ = [run(modules, x) for _ in range(3)]
        for _ in range(2):
            assert torch.equal(run(modules, x), expected), cut


def test_between_passes_a_module_holds_its_own_weights() -> None:
    modules, store = layers(3), SlowStore()
    before = [module.state_dict() for module in layers(3)]
    LayerStream(modules, store)
    run(modules, torch.randn(2, 8))
    for module, state in zip(modules, before, strict=True):
        assert all(torch.equal(module.state_dict()[name], tensor) for name, tensor in state.items())
        assert isinstance(module.get_parameter("weight"), nn.Parameter)


def test_packed_weights_stream_as_they_are() -> None:
    def packed() -> list[nn.Module]:
        torch.manual_seed(1)
        made = [QuantizedLinear(64, 64, form=Int8()) for _ in range(3)]
        for module in made:
            for name, part in zip(("codes", "scales"), Int8().quantize(torch.randn(64, 64)), strict=True):
                module.get_buffer(name).copy_(part)
        return [*made]

    x, modules, store = torch.randn(5, 64), packed(), SlowStore()
    expected = run(packed(), x)
    LayerStream(modules, store)
    assert torch.equal(run(modules, x), expected)
    assert store.bytes == 2 * (64 * 64 + 4 * 64)


def test_host_memory_that_cannot_be_pinned_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Tensor) -> Tensor:
        raise RuntimeError("CUDA error: out of memory\nand more")

    monkeypatch.setattr(torch.cuda, "Stream", lambda device: None)
    monkeypatch.setattr(Tensor, "pin_memory", refuse)
    store = CudaStore(torch.device("cuda"))
    with pytest.raises(OptionError, match=r"can be pinned \(CUDA error: out of memory\): free some, or raise"):
        LayerStream(layers(3), store)
