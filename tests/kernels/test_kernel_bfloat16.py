"""Products of bfloat16 numbers by compiled kernels: exact but for fp32 sums and one rounding; rows that stand alone."""

import platform
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from gesso.kernels import host
from gesso.kernels.host import bfloat16, library, openmp
from gesso.kernels.host.bfloat16 import matmul, reads, serves_processor

pytestmark = [
    pytest.mark.numbers,
    pytest.mark.skipif(not (host.available() and serves_processor()), reason="no fused products and sums"),
]

SHAPES = [(64, 1024), (70, 1040), (5, 16), (1, 48), (192, 2816), (129, 272)]
"""Columns and features: whole slabs and blocks, and what is left over of either."""
TURNED = [(64, 1024), (80, 300 * 16), (16, 48), (1040, 272)]


@pytest.fixture(params=[1, 2])
def own_threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Computes on one thread or two, small products too."""
    monkeypatch.setattr(bfloat16, "ALONE", 0)
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield
    torch.set_num_threads(before)


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).bfloat16()


def matrix(columns: int, features: int, *, turned: bool) -> Tensor:
    return numbers(features, columns, seed=1).T if turned else numbers(columns, features, seed=1)


def exact(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    out = x.double() @ weight.double().T
    return out if bias is None else out + bias.double()


@pytest.mark.parametrize(
    ("columns", "features", "turned"), [*((*s, False) for s in SHAPES), *((*s, True) for s in TURNED)]
)
def test_sums_are_rounded_once_and_a_row_does_not_depend_on_those_beside_it(
    columns: int, features: int, turned: bool, own_threads: None
) -> None:
    weight, x, bias = matrix(columns, features, turned=turned), numbers(300, features), numbers(columns, seed=2)
    assert reads(weight)
    whole, wanted = matmul(x, weight, bias), exact(x, weight, bias)
    # Half a unit in the last place of what comes out, and the sums' own rounding.
    slack = 2.0**-8 * wanted.abs() * 1.001 + 1e-5 * features**0.5
    assert ((whole.double() - wanted).abs() <= slack).all()
    once = wanted.float().bfloat16()
    assert (whole == once).float().mean() > 0.998
    for rows in (1, 2, 5, 6, 7, 64, 257):
        for start in (0, 3):
            assert torch.equal(matmul(x[start : start + rows], weight, bias), whole[start : start + rows]), rows


@pytest.mark.parametrize("turned", [False, True])
def test_processors_with_fewer_registers_give_the_same_bits(turned: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    weight, x = matrix(80, 1296, turned=turned), numbers(11, 1296)
    here = matmul(x, weight)
    flipped = {} if library.features().get("avx512f") else {"avx512f": True}
    monkeypatch.setattr(library, "features", lambda: flipped)
    other = library.bfloat16_kernel.__wrapped__(turned)
    monkeypatch.setattr(bfloat16, "bfloat16_kernel", lambda _: other)
    assert torch.equal(matmul(x, weight), here)


def test_groups_are_multiplied_by_their_own_matrices(own_threads: None) -> None:
    stack, x = numbers(5, 70, 96, seed=1), numbers(310, 96)
    ends = [0, 3, 3, 290, 310]
    out = matmul(x, stack, ends_E=ends)
    for weight, begin, end in zip(stack, [0, *ends], ends, strict=False):
        if begin < end:
            assert torch.equal(out[begin:end], matmul(x[begin:end], weight))


def test_halves_go_to_the_even_number_and_what_is_none_stays_so() -> None:
    unit = torch.eye(16, dtype=torch.bfloat16)
    halves = torch.tensor([1 + 2.0**-8, 1 + 3 * 2.0**-8, -1 - 2.0**-8, 1 + 2.0**-8 + 2.0**-15, 3.4e38, 1e-40, 0.0])
    # Two numbers whose sum is the one to round: the first is cut off, the second is the rest.
    first = (halves.view(torch.int32) & -65536).view(torch.float32)
    x = torch.zeros(len(halves), 16)
    x[:, 0], x[:, 1] = first, halves - first
    weight = unit.clone()
    weight[0, 1] = 1.0
    assert torch.equal(matmul(x.bfloat16(), weight)[:, 0], halves.bfloat16())
    odd = torch.tensor([[float("nan")], [float("inf")], [float("-inf")]]).expand(-1, 16).bfloat16()
    ones = torch.ones(5, 16).bfloat16()
    found = matmul(odd, ones)
    assert found[0].isnan().all()
    assert (found[1] == float("inf")).all()
    assert (found[2] == float("-inf")).all()
    assert matmul(x[:0].bfloat16(), ones).shape == (0, 5)


def test_matrices_that_lie_in_other_ways_are_not_read() -> None:
    weight = numbers(48, 64)
    assert reads(weight)
    assert reads(weight.T)
    assert reads(weight[3:])
    assert reads(weight.view(3, 16, 64))
    assert not reads(weight[:, :32])
    assert not reads(weight[:, ::2])
    assert not reads(numbers(48, 40))
    assert not reads(numbers(40, 64).T)
    assert not reads(weight.view(3, 16, 64).mT)
    assert not reads(weight[:0])


def test_other_threads_serve_where_there_is_no_openmp(own_threads: None, monkeypatch: pytest.MonkeyPatch) -> None:
    weight, x = numbers(640, 96, seed=1), numbers(40, 96)
    out = matmul(x, weight)
    monkeypatch.setattr(openmp, "_openmp", lambda: None)
    assert torch.equal(matmul(x, weight), out)


def test_only_processors_with_fused_products_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    for known, served in (({"fma": True, "avx2": True}, True), ({"avx2": True}, False), ({}, False)):
        monkeypatch.setattr(bfloat16, "features", lambda known=known: known)
        assert serves_processor.__wrapped__() is served
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    assert serves_processor.__wrapped__()
