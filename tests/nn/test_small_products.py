"""Few rows times a small matrix in a kernel: the bits of the layer, whose library fills rows up."""

import importlib.util

import pytest
import torch

from gesso.nn import small_products
from gesso.nn.linear import Linear

if importlib.util.find_spec("llvmlite") is None:
    pytest.skip("llvmlite is not installed", allow_module_level=True)

pytestmark = pytest.mark.numbers


def layer(width: int, outputs: int) -> Linear:
    made = Linear(width, outputs, bias=False)
    with torch.no_grad():
        made.weight.copy_(torch.randn(outputs, width, generator=torch.Generator().manual_seed(1)))
    return made


@pytest.mark.parametrize(("width", "outputs"), [(2816, 128), (704, 48), (96, 16), (50, 20)])
@pytest.mark.parametrize("rows", [1, 3, 4, 5])
@torch.no_grad()
def test_the_bits_are_those_of_the_layer(width: int, outputs: int, rows: int) -> None:
    made, x = layer(width, outputs), torch.randn(rows, width, generator=torch.Generator().manual_seed(2))
    assert torch.equal(small_products.multiply_few(made, x), made(x))


@torch.no_grad()
def test_every_block_adds_up_to_the_product() -> None:
    made, x = layer(1040, 32), torch.randn(2, 1040, generator=torch.Generator().manual_seed(2))
    exact = x.double() @ made.weight.double().T
    for block in (1040, *small_products.BLOCKS):
        found = small_products._multiply(x, made.weight, block)
        assert (found - exact).abs().max() < 1e-3
