"""Linear maps and experts in bfloat16 by kernels: where matmuls in it are slower than in fp32, and with AMX."""

from typing import TypeVar

import pytest
import torch
from torch import Tensor, nn

from gesso.kernels import host
from gesso.kernels.host import amx, bfloat16, bfloat16_amx
from gesso.kernels.host.bfloat16 import serves_processor
from gesso.nn import bfloat16_products, linear
from gesso.nn.bfloat16_products import multiply, served
from gesso.nn.experts import Experts, Router
from gesso.nn.linear import Linear
from gesso.nn.row_alignment import cancelling
from gesso.nn.vocabulary import Vocabulary

Module = TypeVar("Module", bound=nn.Module)
AMX = host.available() and amx.available()

pytestmark = [
    pytest.mark.numbers,
    pytest.mark.skipif(not (host.available() and serves_processor()), reason="no fused products and sums"),
]


@pytest.fixture(autouse=True)
def slow_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(amx, "available", lambda: False)
    monkeypatch.setattr(bfloat16_products, "bfloat16_speed", lambda: 0.2)


def filled(module: Module) -> Module:
    generator = torch.Generator().manual_seed(0)
    for weight in module.parameters():
        nn.init.normal_(weight, std=0.1, generator=generator)
    module.bfloat16().requires_grad_(False)
    return module


def numbers(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1)).bfloat16()


def test_it_is_for_bfloat16_without_gradients_where_that_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight = numbers(3, 32), numbers(8, 32)
    assert not served(x, weight)  # a gradient might be asked for
    with torch.no_grad():
        assert served(x, weight)
        assert served(x, nn.Parameter(weight))
        assert not served(x, weight.float())
        assert not served(x.float(), weight.float())
        assert not served(x.half(), weight.half())
        assert not served(x.to("meta"), weight.to("meta"))
        assert not served(x[:, :24], weight[:, :24].contiguous())
        with torch.autocast("cpu", torch.bfloat16):
            assert not served(x, weight)
        monkeypatch.setattr(bfloat16_products, "bfloat16_speed", lambda: 2.0)
        assert not served(x, weight)
        monkeypatch.setattr(bfloat16_products, "bfloat16_speed", lambda: 0.2)
        monkeypatch.setattr(host, "available", lambda: False)  # llvmlite is not installed, or too old
        assert not served(x, weight)


@pytest.mark.parametrize("biased", [False, True])
def test_a_layer_is_nearer_to_exact_than_by_the_library(biased: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    layer, x = filled(Linear(1088, 72, bias=biased)), numbers(2, 40, 1088)
    with torch.inference_mode():
        found = layer(x)
        monkeypatch.setattr(bfloat16_products, "served", lambda *_: False)
        by_library, wanted = layer(x), nn.functional.linear(x.double(), layer.weight.double())
        if biased:
            wanted = wanted + layer.bias
    assert found.shape == by_library.shape == (2, 40, 72)
    errors = [(out.double() - wanted).abs().mean() for out in (found, by_library)]
    assert errors[0] <= errors[1] * 1.001
    torch.testing.assert_close(found, by_library, atol=1e-2, rtol=1e-2)


def test_experts_in_one_call_are_those_one_by_one_and_tokens_stand_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    mixture, router = filled(Experts(64, 48, 6)), filled(Router(64, 6, 2, 1e-6))
    x = numbers(90, 64)
    with torch.inference_mode():
        weights, chosen = router(x)
        whole = mixture(x, weights, chosen)
        for part in (slice(0, 1), slice(7, 12), slice(20, 84)):
            assert torch.equal(mixture(x[part], weights[part], chosen[part]), whole[part])
        monkeypatch.setattr(bfloat16_products, "served", lambda *_: False)
        assert torch.equal(mixture(x, weights, chosen), whole)


def test_the_table_scores_and_mixes_by_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    table, hidden = filled(Vocabulary(200, 32, 30.0)), numbers(20, 32)
    shares = torch.rand(20, 200, generator=torch.Generator().manual_seed(2))
    asked: list[torch.Size] = []

    def counted(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        asked.append(weight.shape)
        return multiply(x, weight, bias)

    monkeypatch.setattr(bfloat16_products, "multiply", counted)
    with torch.inference_mode():
        part = table.slice(0, 192)
        torch.testing.assert_close(part.scores(hidden), hidden @ table.weight[:192].T)
        wanted = shares[:, :192].bfloat16() @ table.weight[:192]
        torch.testing.assert_close(part.mix(shares[:, :192]), wanted, atol=2e-2, rtol=2e-2)
    assert [tuple(shape) for shape in asked] == [(192, 32), (32, 192)]


def test_what_does_not_fit_is_refused_by_pytorch() -> None:
    x, weight = numbers(3, 32), numbers(8, 32)
    with torch.inference_mode():
        with pytest.raises(RuntimeError):
            linear.linear(x[:, :16], weight)
        with pytest.raises(RuntimeError):
            linear.linear(x, weight, torch.zeros(8))
        with pytest.raises(AssertionError):
            multiply(x[:, :16], weight)


def test_tiles_come_before_other_kernels_where_there_are_any(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(amx, "available", lambda: True)
    kernels = bfloat16_products._kernels
    assert kernels(numbers(48, 64)) is kernels(numbers(3, 48, 64)) is bfloat16_amx
    assert kernels(numbers(64, 48).T) is bfloat16_amx
    for other in (numbers(40, 64), numbers(48, 80), numbers(48, 64).T):
        assert kernels(other) is bfloat16
    monkeypatch.setattr(bfloat16_products, "bfloat16_speed", lambda: 2.0)
    assert kernels(numbers(48, 64)) is bfloat16_amx
    assert kernels(numbers(40, 64)) is None


@pytest.mark.skipif(not AMX, reason="this processor has no AMX")
def test_rows_stand_alone_by_tiles_however_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shapes of which oneDNN adds up 40 rows, or 256, in another order than 16."""
    monkeypatch.setattr(amx, "available", lambda: True)
    for columns, features in ((128, 512), (256, 1024)):
        weight, x = cancelling((columns, features), torch.bfloat16)
        x = x[torch.arange(600) % len(x)]
        with torch.inference_mode():
            whole = linear.linear(x, weight)
            for count in (1, 16, 40, 100, 256, 400):
                assert torch.equal(linear.linear(x[3 : 3 + count], weight), whole[3 : 3 + count])
