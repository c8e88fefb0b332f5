"""NF4: the levels, the error, the matmul's gradients, and 4-bit layers against layers of the weights they stand for."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gesso.nn.experts import Experts
from gesso.nn.quant.base import Format, matmul, multiply_dequantized
from gesso.nn.quant.fp8 import FP8
from gesso.nn.quant.integer import Int4, Int8
from gesso.nn.quant.layers import QuantizedExperts, QuantizedLinear, quantized_like, quantized_tensors
from gesso.nn.quant.nf4 import LEVELS, NF4, dequantize, group_size, quantize
from gesso.nn.quant.nvfp4 import NVFP4

pytestmark = pytest.mark.numbers

# Published with QLoRA (arXiv 2305.14314, appendix E), to the digits that matter here.
PUBLISHED = [-1, -0.6962, -0.5251, -0.3949, -0.2844, -0.1848, -0.0911, 0, 0.0796, 0.1609, 0.2461, 0.3379, 0.4407,
             0.5626, 0.7230, 1]  # fmt: skip


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_the_levels_are_those_of_nf4() -> None:
    assert LEVELS.tolist() == pytest.approx(PUBLISHED, abs=1e-4)


@given(st.integers(1, 5), st.sampled_from([16, 32, 48, 64, 96, 192, 256]), st.integers(0, 99))
def test_every_weight_becomes_its_nearest_level(rows: int, columns: int, seed: int) -> None:
    weight = random(rows, columns, seed=seed)
    codes, scales = quantize(weight)
    size = group_size(columns)
    assert codes.dtype == torch.uint8
    assert codes.shape == (rows, columns // 2)
    assert scales.shape == (rows, columns // size)
    found = dequantize(codes, scales, torch.float32)
    for i in range(rows):
        for group in range(columns // size):
            part = weight[i, group * size : (group + 1) * size]
            levels = LEVELS * part.abs().max().bfloat16().float()
            nearest = levels[(part[:, None] - levels).abs().argmin(dim=1)]
            torch.testing.assert_close(found[i, group * size : (group + 1) * size], nearest)


def test_what_is_on_a_level_comes_back_exactly() -> None:
    codes, scales = quantize(random(8, 128))
    weight = dequantize(codes, scales, torch.float32)
    again = dequantize(*quantize(weight), torch.float32)
    assert torch.equal(weight, again)


def test_zeros_stay_zeros() -> None:
    assert not dequantize(*quantize(torch.zeros(3, 64)), torch.float32).any()


def test_the_error_of_normal_weights_is_that_of_nf4() -> None:
    weight = random(512, 512)
    error = (dequantize(*quantize(weight), torch.float32) - weight).square().mean().sqrt()
    assert 0.08 < error < 0.10, "rms error relative to the weights' own rms"


def test_a_weight_takes_four_and_a_quarter_bits() -> None:
    codes, scales = quantize(random(4, 256, 512))
    bits = 8 * (codes.nbytes + scales.nbytes) / (4 * 256 * 512)
    assert bits == 4.25


@pytest.mark.parametrize("features", [1, 8, 24, 100])
def test_odd_widths_are_refused(features: int) -> None:
    with pytest.raises(ValueError, match=f"{features} input features"):
        group_size(features)


def test_the_matmuls_gradient_is_that_of_the_weight_it_stands_for() -> None:
    codes, scales = quantize(random(24, 64))
    weight = dequantize(codes, scales, torch.float32)
    x, other = random(5, 64, seed=1).requires_grad_(), random(5, 64, seed=1).requires_grad_()
    out, expected = matmul(x, (codes, scales), NF4()), other @ weight.T
    torch.testing.assert_close(out, expected)
    out.square().sum().backward()
    expected.square().sum().backward()
    torch.testing.assert_close(x.grad, other.grad, rtol=1e-5, atol=1e-5)


def test_autocast_computes_in_bfloat16() -> None:
    codes, scales = quantize(random(24, 64))
    x = random(5, 64, seed=1).requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        out = matmul(x, (codes, scales), NF4())
    assert out.dtype == torch.bfloat16
    out.float().sum().backward()
    assert x.grad is not None
    assert x.grad.dtype == torch.float32


@pytest.mark.usefixtures("dequantized")
@pytest.mark.parametrize("bias", [False, True])
def test_a_linear_layer_in_four_bits(bias: bool) -> None:
    plain = torch.nn.Linear(64, 24, bias=bias)
    new = quantized_like(plain)
    assert isinstance(new, QuantizedLinear)
    state = {k: v for name, t in plain.state_dict().items() for k, v in quantized_tensors(f"a.{name}", t).items()}
    new.load_state_dict({name.removeprefix("a."): tensor for name, tensor in state.items()})
    with torch.no_grad():
        plain.weight.copy_(dequantize(new.codes, new.scales, torch.float32))
        torch.testing.assert_close(new(random(3, 64)), plain(random(3, 64)))
    assert not list(new.parameters())


@pytest.mark.parametrize("cast", ["float", "bfloat16", "double"])
@pytest.mark.parametrize("form", [Int8(), Int4(), NF4(), NVFP4(), FP8()], ids=lambda form: form.kernel)
def test_layers_that_are_cast_compute_with_the_parts_that_they_have(form: Format, cast: str) -> None:
    layer, x = QuantizedLinear(128, 24, form=form), random(3, 128)
    layer.load_state_dict(dict(zip(form.parts, form.quantize(random(24, 128, seed=1)), strict=True)))
    with torch.no_grad():
        layer(x)  # which asks whether kernels read its parts
        getattr(layer, cast)()
        expected = multiply_dequantized(x, layer.packed, form)  # kernels round activations to 8 bits
        torch.testing.assert_close(layer(x), expected, atol=0.6, rtol=0)


@pytest.mark.usefixtures("dequantized")
def test_experts_in_four_bits() -> None:
    plain = Experts(64, 32, 5)
    with torch.no_grad():
        for parameter in plain.parameters():
            parameter.copy_(random(*parameter.shape))
    new = quantized_like(plain)
    assert isinstance(new, QuantizedExperts)
    state = {k: v for name, t in plain.state_dict().items() for k, v in quantized_tensors(f"a.{name}", t).items()}
    new.load_state_dict({name.removeprefix("a."): tensor for name, tensor in state.items()})
    with torch.no_grad():
        plain.gate_up_proj.copy_(dequantize(new.gate_up_codes, new.gate_up_scales, torch.float32))
        plain.down_proj.copy_(dequantize(new.down_codes, new.down_scales, torch.float32))
    x = random(11, 64, seed=3)
    weights, experts = torch.rand(11, 2), torch.stack([torch.randperm(5)[:2] for _ in range(11)])
    with torch.no_grad():
        torch.testing.assert_close(new(x, weights, experts), plain(x, weights, experts))


def test_other_modules_stay() -> None:
    assert quantized_like(torch.nn.LayerNorm(4)) is None
