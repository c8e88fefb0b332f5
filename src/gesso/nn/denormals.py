"""Takes denormal numbers, those below 1.2e-38 in fp32, as zero: gradients are full of them, and processors are slow
with them."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import torch

from gesso.nn.pass_threads import torch_library

_SMALL = 1e-38
"""Still normal in fp32; a tenth of it is not."""


@contextmanager
def flushed_denormals() -> Iterator[None]:
    """Takes denormal numbers as zero meanwhile, in this thread and in those that PyTorch computes with for it.

    A gradient that comes through the attention of several layers is often below 1e-38, and a product with such a number
    takes an x86 processor up to two hundred times as long.
    """
    before = are_flushed()
    _flush(True)
    try:
        yield
    finally:
        _flush(before)


def are_flushed() -> bool:
    """Says whether this thread takes denormal numbers as zero."""
    return not (torch.full((), _SMALL) * 0.1).item()


def _flush(flushes: bool) -> None:
    torch.set_flush_denormal(flushes)
    _share_mode()


def _share_mode() -> None:
    """Gives threads that PyTorch has begun for this one the same floating-point mode. Only those of GCC's OpenMP can be
    reached; others keep the mode of the time when they began."""
    mode = ctypes.create_string_buffer(256)  # fenv_t has at most 32 bytes
    with suppress(OSError, AttributeError):
        library = torch_library()
        take, run = ctypes.cast(library.fesetenv, ctypes.c_void_p), library.GOMP_parallel
        library.fegetenv(mode)
        run(take, mode, ctypes.c_uint(torch.get_num_threads()), ctypes.c_uint(0))
