"""Denormal numbers are zero in every thread that computes, for as long as it is asked for."""

import sys

import pytest
import torch

from gesso.nn.denormals import are_flushed, flushed_denormals

SMALL = 1e-20
"""Whose square is a denormal number."""
pytestmark = pytest.mark.skipif(not torch.set_flush_denormal(False), reason="this processor has no such mode")


def squares() -> int:
    """How many of many squares are not zero, computed by all threads."""
    numbers = torch.full((1 << 20,), SMALL)
    return int((numbers * numbers).count_nonzero())


@pytest.mark.parametrize(
    "threads", [1, pytest.param(2, marks=pytest.mark.skipif(sys.platform != "linux", reason="OpenMP"))]
)
def test_all_threads_take_them_as_zero_meanwhile(threads: int) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        assert squares() == 1 << 20  # PyTorch's threads have begun
        with flushed_denormals():
            assert are_flushed()
            assert squares() == 0
            with flushed_denormals():
                pass
            assert squares() == 0
        assert not are_flushed()
        assert squares() == 1 << 20
    finally:
        torch.set_num_threads(before)
