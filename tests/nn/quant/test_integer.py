"""int8 and int4: error bounds, the layout, rows that do not depend on each other, and layers against plain layers."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from gesso.nn.experts import Experts
from gesso.nn.quant import base
from gesso.nn.quant.base import Format, dequantize, matmul
from gesso.nn.quant.integer import Int4, Int8
from gesso.nn.quant.layers import quantized_like, quantized_tensors

pytestmark = pytest.mark.numbers

UNIT = 2.0**-24
"""Of rounding in fp32."""
FORMS: list[Format] = [Int8(), Int4(32), Int4(64), Int4(128)]
forms = pytest.mark.parametrize("form", FORMS, ids=str)


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def filled(module: torch.nn.Module, form: Format) -> torch.nn.Module:
    """`module` in few bits; its own weights become what the bits stand for."""
    new = quantized_like(module, form)
    assert new is not None
    parts = {}
    with torch.no_grad():
        for name, tensor in module.state_dict().items():
            made = {key.removeprefix("a."): t for key, t in quantized_tensors(f"a.{name}", tensor, form).items()}
            parts |= made
            if name != "bias":
                for i, weight in enumerate(tensor if tensor.dim() == 3 else [tensor]):
                    own = tuple(part[i] if tensor.dim() == 3 else part for part in made.values())
                    weight.copy_(dequantize(own, form, torch.float32))
    new.load_state_dict(parts)
    return new


weights = st.builds(
    lambda rows, columns, seed, scale, shift: random(rows, columns, seed=seed) * 10.0**scale + shift * 10.0**scale,
    st.integers(1, 5),
    st.sampled_from([128, 256, 384]),
    st.integers(0, 99),
    st.integers(-6, 4),
    st.sampled_from([0.0, 0.0, 3.0, -50.0]),
)


@given(weights)
def test_int8_is_off_by_half_a_step_at_most(weight: torch.Tensor) -> None:
    codes, scales = Int8().quantize(weight)
    assert codes.dtype == torch.int8
    assert codes.abs().max() == 127, "the largest of a row uses the whole range"
    error = (dequantize((codes, scales), Int8(), torch.float32) - weight).abs()
    assert (error <= (0.5 + 1e-4) * (weight.abs().amax(dim=1, keepdim=True) / 127)).all()


@given(weights, st.sampled_from([32, 64, 128]))
def test_int4_is_off_by_half_a_step_and_the_rounding_of_scale_and_offset(weight: torch.Tensor, size: int) -> None:
    form = Int4(size)
    found = dequantize(form.quantize(weight), form, torch.float32).unflatten(1, (-1, size))
    groups = weight.unflatten(1, (-1, size))
    step = (groups.amax(dim=2).clamp(min=0) - groups.amin(dim=2).clamp(max=0)) / 15
    # bfloat16 has 8 bits: fifteen steps of a rounded scale and an offset of fifteen are each off by 15 / 2**8 at most.
    assert ((found - groups).abs() <= (0.5 + 2 * 15 / 2**8) * step[..., None]).all()


@pytest.mark.parametrize(("form", "least", "most"), [(Int8(), 0.006, 0.009), (Int4(64), 0.08, 0.10)], ids=str)
def test_the_error_of_normal_weights(form: Format, least: float, most: float) -> None:
    weight = random(512, 512)
    error = (dequantize(form.quantize(weight), form, torch.float32) - weight).square().mean().sqrt()
    assert least < error < most


@forms
def test_zeros_stay_zeros(form: Format) -> None:
    assert not dequantize(form.quantize(torch.zeros(3, 128)), form, torch.float32).any()


def test_a_byte_of_int4_holds_both_halves_of_its_group() -> None:
    codes, scales, offsets = Int4(32).quantize(random(3, 64))
    found = dequantize((codes, scales, offsets), Int4(32), torch.float32)
    for row in range(3):
        for column in range(64):
            group, place = divmod(column, 32)
            byte = int(codes[row, group * 16 + place % 16])
            code = byte >> 4 if place >= 16 else byte & 15
            assert found[row, column] == code * scales[row, group].float() + offsets[row, group].float()


@pytest.mark.parametrize(("form", "bits"), [(Int8(), 8.0625), (Int4(32), 5.0), (Int4(64), 4.5), (Int4(128), 4.25)])
def test_how_many_bits_a_weight_takes(form: Format, bits: float) -> None:
    parts = form.quantize(random(256, 512))
    assert 8 * sum(part.nbytes for part in parts) / (256 * 512) == bits
    empty = form.empty(256, 512)
    assert [(p.shape, p.dtype) for p in parts] == [(p.shape, p.dtype) for p in empty]


@pytest.mark.parametrize("features", [48, 100, 32])
def test_widths_that_are_no_whole_groups_are_refused(features: int) -> None:
    with pytest.raises(ValueError, match=f"{features} input features are no multiple of the group size 64"):
        Int4(64).empty(4, features)


@forms
@given(st.integers(1, 6), st.integers(0, 5), st.sampled_from([torch.float32, torch.bfloat16]))
def test_a_row_does_not_depend_on_the_rows_beside_it(
    form: Format, others: int, before: int, dtype: torch.dtype
) -> None:
    parts = form.quantize(random(320, 256))
    own, place = random(5, 256, seed=1).to(dtype), 7 * min(before, others)
    beside = random(7 * others, 256, seed=2).to(dtype)
    with torch.no_grad():
        alone = matmul(own, parts, form)
        among = matmul(torch.cat((beside[:place], own, beside[place:])), parts, form)
    assert torch.equal(alone, among[place : place + 5])


@pytest.mark.usefixtures("dequantized")
@forms
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_the_matmul_is_that_of_the_weight_whatever_the_tiles(
    form: Format, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts, x = form.quantize(random(40, 256) * 0.05), random(16, 256, seed=1).to(dtype)
    weight = dequantize(parts, form, torch.float32).double()
    expected = x.double() @ weight.T
    # A sum of n products in fp32 is off by n units of 2**-24 of the sum of their magnitudes, in whatever order (Higham,
    # Accuracy and Stability, 3.1). Beside that, in units of `dtype`: two roundings of a weight (scaled, offset), of
    # numbers up to its group's offset and fifteen steps, or of the scaled result; one of the result; one of the weight
    # in `expected`.
    exact = 256 * UNIT * 1.001
    size = 1 if isinstance(form, Int8) else 3  # |offset| + |steps| of a weight beside the largest of its group
    largest = weight.abs().unflatten(1, (-1, getattr(form, "group_size", 256))).amax(dim=2, keepdim=True)
    magnitude = x.double().abs() @ (size * largest.expand(-1, -1, 256 // largest.shape[1]).flatten(1)).T
    bound = (exact + 4 * torch.finfo(dtype).eps / 2) * magnitude
    with torch.no_grad():
        for tile in (1, 7 * 256, 1 << 19):
            monkeypatch.setattr(base, "CPU_TILE", tile)
            found = matmul(x, parts, form)
            assert found.dtype == dtype
            assert ((found.double() - expected).abs() <= bound).all()


def test_half_precision_does_not_overflow() -> None:
    x, weight = torch.full((16, 1024), 8.0, dtype=torch.float16), torch.full((4, 1024), 0.5)
    with torch.no_grad():
        out = matmul(x, Int8().quantize(weight), Int8())
    torch.testing.assert_close(out, torch.full((16, 4), 4096.0, dtype=torch.float16))


@forms
def test_gradients_reach_the_activations(form: Format) -> None:
    parts = form.quantize(random(24, 128))
    x, other = random(5, 128, seed=1).requires_grad_(), random(5, 128, seed=1).requires_grad_()
    matmul(x, parts, form).square().sum().backward()
    weight = dequantize(parts, form, torch.float32)
    (other @ weight.T).square().sum().backward()
    assert x.grad is not None
    assert other.grad is not None
    # 2 x W^T W: sums of 128 and of 24 products, and two roundings more in each, on either side.
    magnitude = 2 * x.detach().abs() @ weight.T.abs() @ weight.abs()
    assert ((x.grad - other.grad).abs() <= 2 * (128 + 24 + 4) * UNIT * magnitude).all()


@pytest.mark.usefixtures("dequantized")
@forms
@pytest.mark.parametrize("bias", [False, True])
def test_a_linear_layer(form: Format, bias: bool) -> None:
    plain = torch.nn.Linear(128, 24, bias=bias)
    new = filled(plain, form)
    with torch.no_grad():
        torch.testing.assert_close(new(random(3, 128)), plain(random(3, 128)))
    assert not list(new.parameters())


@pytest.mark.usefixtures("dequantized")
@forms
def test_experts_some_of_which_have_no_tokens(form: Format) -> None:
    plain = Experts(128, 128, 5)
    with torch.no_grad():
        for parameter in plain.parameters():
            parameter.copy_(random(*parameter.shape))
    new = filled(plain, form)
    x, shares = random(11, 128, seed=3), torch.rand(11, 2)
    chosen = torch.tensor([[0, 3]]).expand(11, 2)
    gate_up, down = plain.gate_up_proj.detach().double(), plain.down_proj.detach().double()
    expected, bound = torch.zeros(11, 128, dtype=torch.float64), torch.zeros(11, 128, dtype=torch.float64)
    for share, expert in zip(shares.double().T, (0, 3), strict=True):
        gate, up = (x.double() @ gate_up[expert].T).chunk(2, dim=-1)
        hidden = F.gelu(gate, approximate="tanh") * up
        expected += share[:, None] * (hidden @ down[expert].T)
        # Each sum of 128 is off by 129 units of the magnitudes it adds up (a product, and the scale of the row); GELU
        # passes on 1.13 times what its argument is off by, and rounds by some units of its own.
        off_gate, off_up = (129 * UNIT * (x.double().abs() @ gate_up[expert].abs().T)).chunk(2, dim=-1)
        off_hidden = 1.13 * off_gate * (up.abs() + off_up) + gate.abs() * (off_up + 16 * UNIT * up.abs())
        off = (off_hidden + 129 * UNIT * hidden.abs()) @ down[expert].abs().T
        bound += share[:, None] * (off + 4 * UNIT * (hidden.abs() @ down[expert].abs().T))
    with torch.no_grad():
        for found in (new(x, shares, chosen), plain(x, shares, chosen)):
            assert ((found - expected).abs() <= bound).all()
