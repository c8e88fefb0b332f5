"""The faster library computes the same; `test_row_alignment` has rows that do not depend on each other."""

import pytest
import torch
from torch.nn import functional as F

from gesso.nn.linear import SMALL, Linear, linear

pytestmark = pytest.mark.numbers

SHAPES = [(192, 256), (256, 1811), (704, 384), (96, 2048)]


@pytest.mark.parametrize(("inside", "outside"), SHAPES)
@pytest.mark.parametrize("biased", [False, True])
def test_it_is_the_product(inside: int, outside: int, biased: bool) -> None:
    torch.manual_seed(0)
    x, weight = torch.randn(48, inside), torch.randn(outside, inside)
    bias = torch.randn(outside) if biased else None
    with torch.inference_mode():
        found = linear(x, weight, bias)
    expected = F.linear(x.double(), weight.double(), None if bias is None else bias.double())
    torch.testing.assert_close(found.double(), expected, atol=1e-4, rtol=1e-5)


def test_a_table_read_the_other_way_round() -> None:
    torch.manual_seed(2)
    weights, table = torch.rand(32, 2048), torch.randn(2048, 96)
    assert table.numel() >= SMALL
    with torch.inference_mode():
        torch.testing.assert_close(linear(weights, table.T), weights @ table, atol=1e-3, rtol=1e-5)


def test_gradients_other_types_and_no_rows_go_as_ever() -> None:
    layer = Linear(256, 512)
    x = torch.randn(4, 256, requires_grad=True)
    layer(x).sum().backward()
    assert x.grad is not None
    assert layer.weight.grad is not None
    with torch.inference_mode():
        half = linear(x.detach().bfloat16(), layer.weight.detach().bfloat16())
        assert half.dtype == torch.bfloat16
        assert linear(x.detach()[:0], layer.weight.detach()).shape == (0, 512)
        with torch.autocast("cpu", torch.bfloat16):
            assert linear(x.detach(), layer.weight.detach()).dtype == torch.bfloat16
