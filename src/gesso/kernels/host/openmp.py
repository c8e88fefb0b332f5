"""Shares compiled work among the threads that PyTorch's operations run on, where PyTorch brought OpenMP along."""

import ctypes
import functools
import os
from array import array
from collections.abc import Callable

from gesso.kernels.host.threads import Work, share_out

_SHARES = 8
"""Times that each thread comes for units of a job that threads share as they come."""
_PROCESS = os.getpid()
"""A child that is forked has none of its parent's threads, and OpenMP would wait for them."""


def run_on_all(kernel: int, fields: int, threads: int) -> None:
    """Calls a kernel on so many threads at once, and waits for all of them; they share its work out among themselves.

    PyTorch's own threads are taken where they are found: after each of its operations they spin for milliseconds on the
    cores that others would need.

    Args:
        kernel: address of a function of one pointer.
        fields: what it is given.
    """
    parallel = _openmp() if os.getpid() == _PROCESS else None
    if threads > 1 and parallel is not None:
        parallel(kernel, fields, threads, 0)
    else:
        call = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(kernel)
        share_out(lambda *_: call(fields), threads, threads)


@functools.cache
def _openmp() -> Callable[[int, int, int, int], None] | None:
    """Finds the function by which compiled code starts a parallel region, if PyTorch brought OpenMP's library along."""
    try:
        parallel = ctypes.CDLL(None).GOMP_parallel
    except (AttributeError, OSError, TypeError):  # another library, or a system that has no names of a whole process
        return None
    parallel.argtypes, parallel.restype = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint), None
    found: Callable[[int, int, int, int], None] = parallel
    return found


def take_units(work: Work, context: int, count: int, threads: int) -> None:
    """Does a job as `share_units` does, by the threads that PyTorch's operations beside it are done by: where these are
    many, they and helpers of our own would be in one another's way."""
    if threads == 1:
        work.call(context, 0, 0, count)
        return
    from gesso.kernels.host.library import team

    step = max(1, count // (_SHARES * threads))
    words = array("q", [work.address, context, count, step, 0, 0])
    run_on_all(team().take_units, words.buffer_info()[0], threads)
