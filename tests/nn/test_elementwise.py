"""Elementwise functions round a row in one way wherever it stands."""

from collections.abc import Iterator

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from gesso.nn.elementwise import _GELU_ALONE, _SHARE, LOWEST, _pieces, drop_faint_, gelu, sigmoid_, softmax

pytestmark = pytest.mark.numbers


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("count", [1, 2, 3, 5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("width", [24, 128, 704])
def test_gelu(width: int, dtype: torch.dtype, count: int, threads: None) -> None:
    torch.set_num_threads(count)
    both = 2 * torch.randn(256, 2 * width, generator=torch.Generator().manual_seed(0)).to(dtype)
    with torch.no_grad():
        for x in (both[:, :width].contiguous(), both.chunk(2, dim=-1)[0]):
            whole = gelu(x)
            torch.testing.assert_close(whole, F.gelu(x, approximate="tanh"))
            for rows in (4, 12, 32, 80, 112, 208):
                assert torch.equal(gelu(x[:rows].clone() if x.is_contiguous() else x[:rows]), whole[:rows])


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_the_sigmoid(count: int, threads: None) -> None:
    torch.set_num_threads(count)
    x = 3 * torch.randn(256, 1856, generator=torch.Generator().manual_seed(0))
    whole = sigmoid_(x.clone())
    torch.testing.assert_close(whole, x.sigmoid())
    for rows in (4, 12, 32, 80, 112, 208):
        assert torch.equal(sigmoid_(x[:rows].clone()), whole[:rows])


@given(st.integers(1, 600), st.integers(1, 4000), st.integers(1, 12), st.booleans())
def test_shares_are_whole_rows(rows: int, width: int, threads: int, gelu_shares: bool) -> None:
    pieces = _pieces(rows, width, threads, gelu_shares=gelu_shares)
    assert sum(pieces) == rows
    for piece in pieces:
        numbers = piece * width
        shares = (threads if numbers > _GELU_ALONE else 1) if gelu_shares else min(threads, -(-numbers // _SHARE))
        assert piece == 1 or piece % shares == 0


def test_no_power_is_a_denormal_number() -> None:
    exponents = torch.linspace(-150, 0, 1501)
    powers = drop_faint_(exponents.clone()).exp()
    kept = exponents > -69
    assert torch.equal(powers[kept], exponents[kept].exp())
    assert not powers[~kept].any()
    assert not (drop_faint_(torch.full((3,), -75.0)) * 0.0).isnan().any()
    assert drop_faint_(torch.tensor([float("nan"), LOWEST])).isnan().tolist() == [True, False]


def test_no_share_is_a_denormal_number() -> None:
    logits = torch.linspace(-150, 0, 1501).expand(2, -1).contiguous()
    shares = softmax(logits)
    torch.testing.assert_close(shares, logits.softmax(dim=-1))
    assert not ((shares > 0) & (shares < torch.finfo(torch.float32).tiny)).any()
    leaf = logits.clone().requires_grad_()
    softmax(leaf)[:, -1].sum().backward()
    plain = logits.clone().requires_grad_()
    plain.softmax(dim=-1)[:, -1].sum().backward()
    assert leaf.grad is not None
    torch.testing.assert_close(leaf.grad, plain.grad)
