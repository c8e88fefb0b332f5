"""Packing by a compiled kernel: the bits that the format's own definition gives, and the error that it measures."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gesso.kernels import host
from gesso.nn.quant.base import Format, dequantize
from gesso.nn.quant.integer import Int4, Int8
from gesso.nn.quant.nf4 import NF4
from gesso.nn.quant.packing import pack

FORMS: list[Format] = [Int8(), Int4(32), Int4(64), Int4(128), NF4()]


def label(form: Format) -> str:
    return f"{form.kernel}{getattr(form, 'group_size', '')}"


forms = pytest.mark.parametrize("form", FORMS, ids=label)


@forms
@given(seed=st.integers(0, 1000), rows=st.integers(1, 9), scale=st.sampled_from([1e-30, 1e-3, 1.0, 1e20]))
def test_bits_are_those_of_the_definition(form: Format, seed: int, rows: int, scale: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(rows, 256, generator=generator) * scale + (seed % 3 - 1) * scale
    for kind in (torch.float32, torch.bfloat16):
        own = weight.to(kind)
        parts, lost, size = pack(own, form)
        expected = form.quantize(own)
        assert all(torch.equal(a, b) for a, b in zip(parts, expected, strict=True))
        whole = own.float().double()
        error = (dequantize(expected, form, torch.float32).double() - whole).square().sum().item()
        assert size == pytest.approx(whole.square().sum().item(), rel=1e-3)
        assert math.sqrt(lost / size) == pytest.approx(math.sqrt(error / size), rel=1e-2, abs=1e-6)


@pytest.mark.parametrize("form", FORMS[:-1], ids=label)
def test_zeros_and_constants(form: Format) -> None:
    for value in (0.0, 1.0, -1.0):
        weight = torch.full((2, 128), value)
        parts, lost, size = pack(weight, form)
        assert all(torch.equal(a, b) for a, b in zip(parts, form.quantize(weight), strict=True))
        assert lost <= 1e-4 * size


@forms
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_shows_in_the_error(form: Format, bad: float) -> None:
    weight = torch.ones(2, 256)
    weight[1, 77] = bad
    _, lost, size = pack(weight, form)
    assert not (math.isfinite(lost) and math.isfinite(size))


def test_array_operations_serve_where_there_is_no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    weight = torch.randn(4, 128, generator=torch.Generator().manual_seed(0))
    by_kernel = pack(weight, Int4())
    monkeypatch.setattr(host, "available", lambda: False)
    by_arrays = pack(weight, Int4())
    assert all(torch.equal(a, b) for a, b in zip(by_kernel[0], by_arrays[0], strict=True))
    assert by_kernel[1:] == pytest.approx(by_arrays[1:], rel=1e-5)
