"""Products by small fp32 weights in kernels: as near to exact as a library's, the same bits beside any other rows."""

import importlib.util

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

if importlib.util.find_spec("llvmlite") is None:
    pytest.skip("llvmlite is not installed", allow_module_level=True)

from gesso.kernels.host import packed
from gesso.nn import float32_products, host_experts
from gesso.nn.experts import Experts, Router
from gesso.nn.float32_products import served
from gesso.nn.host_kernels import keeps_rows_apart
from gesso.nn.linear import Linear, apply_together, linear
from gesso.nn.quant.integer import Int8
from gesso.nn.quant.layers import QuantizedLinear

pytestmark = pytest.mark.numbers
WIDTH = 128


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def filled(module: nn.Module) -> nn.Module:
    with torch.no_grad():
        for number, parameter in enumerate(module.parameters()):
            parameter.copy_(random(*parameter.shape, seed=number))
    return module


@pytest.mark.parametrize(
    ("rows", "outputs", "width"), [(1, 1, 64), (3, 17, 128), (9, 8, 192), (40, 70, 64), (16, 3, 2816)]
)
@pytest.mark.parametrize("biased", [False, True])
@torch.inference_mode()
def test_a_product_is_as_near_to_exact_as_the_librarys(rows: int, outputs: int, width: int, biased: bool) -> None:
    x, weight, bias = random(rows, width), random(outputs, width, seed=1), random(outputs, seed=2)
    assert served(x, weight)
    found = linear(x, weight, bias if biased else None)
    exact = x.double() @ weight.double().T + (bias.double() if biased else 0)
    magnitudes = x.abs().double() @ weight.abs().double().T + 1
    assert ((found - exact).abs() / magnitudes).max() < 64 * 2**-24
    assert torch.equal(linear(x.view(1, rows, width), weight, bias if biased else None)[0], found)


@given(data=st.data(), rows=st.integers(1, 70), outputs=st.integers(1, 90), blocks=st.integers(1, 5))
@settings(deadline=None)
def test_a_row_has_the_same_bits_wherever_it_stands(data: st.DataObject, rows: int, outputs: int, blocks: int) -> None:
    x, weight = random(rows, 64 * blocks), random(outputs, 64 * blocks, seed=1)
    begin = data.draw(st.integers(0, rows - 1))
    end = data.draw(st.integers(begin + 1, rows))
    with torch.inference_mode():
        assert torch.equal(linear(x[begin:end], weight), linear(x, weight)[begin:end])


@pytest.mark.parametrize("threads", [2, 3])
@torch.inference_mode()
def test_bits_do_not_depend_on_threads(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "PLAIN_ALONE", 0)
    x, weight, before, found = random(21, WIDTH), random(90, WIDTH, seed=1), torch.get_num_threads(), []
    for count in (1, threads):
        torch.set_num_threads(count)
        try:
            found.append(linear(x, weight))
        finally:
            torch.set_num_threads(before)
    assert torch.equal(*found)


def test_what_kernels_do_not_multiply_is_said() -> None:
    x, weight = random(3, WIDTH), random(8, WIDTH, seed=1)
    with torch.no_grad():
        assert served(x, weight)
        assert served(x, nn.Parameter(weight))
        assert served(x, weight[None])  # one of several
        assert not served(x.bfloat16(), weight)
        assert not served(x, weight.bfloat16())
        assert not served(random(3, 96), random(8, 96))  # no whole blocks of features
        assert not served(x, random(WIDTH, 8).T)
        assert not served(x, random(float32_products.LARGEST // WIDTH + 1, WIDTH))
        assert served(x, random(2, float32_products.LARGEST // WIDTH, WIDTH))
        with torch.autocast("cpu", torch.bfloat16):
            assert not served(x, weight)
    assert not served(x, weight)  # with a gradient


@torch.inference_mode()
def test_layers_applied_together_give_the_bits_of_each_in_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    made = [filled(Linear(WIDTH, outputs, bias=False)) for outputs in (70, 33, 8)]
    x, calls, multiply = random(5, WIDTH, seed=9), list[int](), packed.multiply
    alone = [layer(x) for layer in made]
    monkeypatch.setattr(packed, "multiply", lambda *args: (calls.append(1), multiply(*args))[1])
    together = apply_together(x, *made)
    assert calls == [1]
    assert all(torch.equal(*pair) for pair in zip(alone, together, strict=True))


@torch.inference_mode()
def test_layers_that_are_observed_or_not_alike_are_applied_one_by_one() -> None:
    x, seen = random(5, WIDTH, seed=9), list[int]()
    made = [filled(Linear(WIDTH, 8, bias=False)) for _ in range(2)]
    hook = made[1].register_forward_hook(lambda *_: seen.append(1))
    assert Linear.together(made, x) is None
    apply_together(x, *made)
    assert seen == [1]
    hook.remove()
    assert Linear.together(made, x) is not None
    assert Linear.together([made[0], filled(Linear(WIDTH, 8))], x) is None  # a bias
    assert Linear.together([made[0], filled(nn.Linear(WIDTH, 8, bias=False))], x) is None
    assert Linear.together(made, x[None]) is None


@torch.inference_mode()
def test_experts_of_few_rows_give_the_bits_of_many(monkeypatch: pytest.MonkeyPatch) -> None:
    mixture, router = filled(Experts(WIDTH, 64, 40)), filled(Router(WIDTH, 40, 2, 1e-6))
    x = random(60, WIDTH, seed=7)
    weights, chosen = router(x)
    many = mixture(x, weights, chosen)
    few = [mixture(x[i : i + 3], weights[i : i + 3], chosen[i : i + 3]) for i in range(0, 60, 3)]
    assert torch.equal(torch.cat(few), many)
    monkeypatch.setattr(Experts, "on_host", lambda *_: False)
    assert torch.allclose(mixture(x, weights, chosen), many, rtol=1e-4, atol=2e-2)


@torch.inference_mode()
def test_experts_leave_rows_that_fill_a_pass_up_to_the_last() -> None:
    mixture, router = filled(Experts(WIDTH, 64, 4)), filled(Router(WIDTH, 4, 2, 1e-6))
    x = random(5, WIDTH, seed=7)
    padded = host_experts.repeat_last(x, 8)
    assert host_experts.leading_rows(padded) == 5
    assert torch.equal(mixture(padded, *router(padded))[:5], mixture(x, *router(x)))


def test_rows_of_layers_that_kernels_read_need_no_alignment() -> None:
    small, wide = nn.Sequential(Linear(WIDTH, 8)), nn.Sequential(Linear(96, 8))
    packed_, other = nn.Sequential(QuantizedLinear(WIDTH, 8, form=Int8())), nn.Sequential(nn.Linear(WIDTH, 8))
    with torch.no_grad():
        assert [keeps_rows_apart(layer) for layer in (small, wide, packed_, other)] == [True, False, True, False]
    assert not any(keeps_rows_apart(layer) for layer in (small, packed_))  # with gradients there is no kernel
