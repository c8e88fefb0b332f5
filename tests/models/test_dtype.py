"""The dtype that `auto` is, by device, size and measured speed."""

import pytest
import torch

from gesso.models import dtype
from gesso.models.dtype import pick_dtype


def test_a_small_model_is_float32_on_a_cpu_and_bfloat16_elsewhere() -> None:
    assert pick_dtype("auto", torch.device("cpu")) == torch.float32
    assert pick_dtype("auto", torch.device("cuda")) == torch.bfloat16


@pytest.mark.parametrize(
    ("speed", "free", "expected"), [(0.4, 100, torch.float32), (2.0, 100, torch.bfloat16), (0.4, 8, torch.bfloat16)]
)
def test_a_large_model_gets_the_dtype_that_is_measured_to_be_faster_and_fits(
    monkeypatch: pytest.MonkeyPatch, speed: float, free: int, expected: torch.dtype
) -> None:
    monkeypatch.setattr(dtype, "bfloat16_speed", lambda: speed)
    monkeypatch.setattr(dtype, "available_bytes", lambda: free * 10**9)
    assert pick_dtype("auto", torch.device("cpu"), 2 * 10**9) == expected
    assert pick_dtype("auto", torch.device("cpu"), 10**9) == torch.float32
