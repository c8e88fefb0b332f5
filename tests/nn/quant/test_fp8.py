import pytest
import torch

from gesso.nn.quant.base import dequantize
from gesso.nn.quant.fp8 import FP8

pytestmark = pytest.mark.numbers


def test_fp8_is_within_half_a_step_of_every_weight() -> None:
    weight = (
        torch.randn(7, 48, generator=torch.Generator().manual_seed(0))
        * torch.tensor(10.0) ** torch.arange(-3, 4)[:, None]
    )
    weight[2] = 0.0
    codes, scales = FP8().quantize(weight)
    assert (codes.dtype, codes.shape, scales.shape) == (torch.float8_e4m3fn, (7, 48), (7,))
    error = (dequantize((codes, scales), FP8(), torch.float32) - weight).abs()
    # Three bits behind the leading one; below 2**-6 steps are all alike.
    assert (error <= torch.maximum(weight.abs() / 16, scales[:, None] * 2.0**-10) * 1.0001).all()
    assert (codes.float().abs().amax(dim=1)[scales > 0] == 448).all()
    assert (error[2] == 0).all()
