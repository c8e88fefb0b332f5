"""The packed forms of weights that host kernels read, and how near a product by whole numbers is to the exact one."""

import pytest
import torch

from gesso.kernels.host.activations import BLOCK
from gesso.kernels.host.layouts import NF4_TABLE, NF4_TOP
from gesso.nn.quant.base import Format, dequantize
from gesso.nn.quant.fp8 import FP8
from gesso.nn.quant.integer import Int4, Int8
from gesso.nn.quant.nf4 import NF4
from gesso.nn.quant.nvfp4 import NVFP4

FORMS: list[Format] = [Int8(), Int4(32), Int4(64), Int4(128), NF4(), NVFP4(), FP8()]
forms = pytest.mark.parametrize("form", FORMS, ids=lambda form: str(getattr(form, "group_size", "")) + form.kernel)
ROWS = 21


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def levels(form: Format, parts: tuple[torch.Tensor, ...]) -> torch.Tensor:
    """The matrix that a kernel multiplies by: NF4's levels are rounded to 127ths, the others are exact."""
    if not isinstance(form, NF4):
        return dequantize(parts, form, torch.float32)
    codes, scales = parts
    halves = torch.stack((codes >> 4, codes & 15), dim=-1).flatten(-2).int()
    table = torch.tensor(NF4_TABLE) / NF4_TOP
    return (table[halves].unflatten(-1, (scales.shape[-1], -1)) * scales.float()[..., None]).flatten(-2)


def bound(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Half a step of each block of activations times the magnitudes of its weights, and fp32's roundings."""
    steps = x.unflatten(1, (-1, BLOCK)).abs().amax(dim=2) / 127
    blocks = weight.abs().unflatten(1, (-1, BLOCK)).sum(dim=2)
    return 0.5 * steps.double() @ blocks.double().T * 1.001 + 1e-5 * x.abs().double() @ weight.abs().double().T
