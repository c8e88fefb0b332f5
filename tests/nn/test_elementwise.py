"""Elementwise functions round a row in one way wherever it stands."""

from collections.abc import Iterator

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from gesso.nn.elementwise import _GELU_ALONE, _SHARE, _pieces, gelu, sigmoid_

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
