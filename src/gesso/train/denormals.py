"""Takes denormal numbers, those below 1.2e-38 in fp32, as zero: gradients are full of them, and processors are slow
with them."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

_SMALL = 1e-38
"""Still normal in fp32; a tenth of it is not."""


@contextmanager
def flushed_denormals() -> Iterator[None]:
    """Takes denormal numbers as zero meanwhile, in this thread and in those that PyTorch starts for it.

    A gradient that comes through the attention of several layers is often below 1e-38, and a product with such a number
    takes an x86 processor up to two hundred times as long. Threads that PyTorch started before go on as they did.
    """
    before = are_flushed()
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


def are_flushed() -> bool:
    """Says whether this thread takes denormal numbers as zero."""
    return not (torch.full((), _SMALL) * 0.1).item()
