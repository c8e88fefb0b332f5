"""Where fp64 is computed."""

import pytest
import torch

from gesso.nn.fp64 import fp64_device, to_fp64


@pytest.mark.parametrize(("device", "where"), [("cpu", "cpu"), ("cuda:1", "cuda:1"), ("mps", "cpu"), ("mps:0", "cpu")])
def test_a_device_without_it_leaves_it_to_the_cpu(device: str, where: str) -> None:
    assert fp64_device(torch.device(device)) == torch.device(where)


def test_numbers_stay_what_they_are() -> None:
    x = torch.tensor([0.1, -3.0])
    assert to_fp64(x).dtype == torch.float64
    assert torch.equal(to_fp64(x).float(), x)
