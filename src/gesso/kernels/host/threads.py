"""Shares work among threads that Python's lock does not hold back: compiled kernels, called through ctypes."""

import ctypes
import functools
import os
import threading
from collections.abc import Callable
from queue import SimpleQueue

Share = Callable[[int, int, int], None]
"""Does one thread's share: the thread's number, where it begins and where it ends."""

_Done = SimpleQueue[BaseException | None]
_Asked = SimpleQueue[tuple[Share, int, int, int, _Done]]


def _serve(asked: _Asked) -> None:
    while True:
        work, thread, begin, end, done = asked.get()
        try:
            work(thread, begin, end)
        except BaseException as error:  # noqa: BLE001 - raised again by who waits
            done.put(error)
        else:
            done.put(None)
        del work, done  # what it computed with is not kept until the next call


@functools.cache
def _helpers(count: int) -> _Asked:
    """Starts so many threads that take shares from one queue: plain queues, because futures take longer than a small
    product."""
    asked: _Asked = SimpleQueue()
    for number in range(count):
        threading.Thread(target=_serve, args=(asked,), name=f"gesso-kernel_{number}", daemon=True).start()
    return asked


if hasattr(os, "register_at_fork"):
    # A child process has none of its parent's threads.
    os.register_at_fork(after_in_child=_helpers.cache_clear)


def share_out(work: Share, count: int, threads: int) -> None:
    """Divides `count` things evenly among threads, of which the caller is one, and waits for all of them."""
    if threads == 1:
        work(0, 0, count)
        return
    edges = [count * thread // threads for thread in range(threads + 1)]
    asked, done = _helpers(threads - 1), _Done()
    for thread in range(1, threads):
        asked.put((work, thread, edges[thread], edges[thread + 1], done))
    try:
        work(0, edges[0], edges[1])
    finally:
        errors = [done.get() for _ in range(1, threads)]  # nobody computes any longer, whatever happened here
    for error in errors:
        if error is not None:
            raise error


def run_on_all(kernel: int, fields: int, threads: int) -> None:
    """Calls a kernel on so many threads at once, and waits for all of them; they share its work out among themselves.

    PyTorch's own threads are taken where they are found: after each of its operations they spin for milliseconds on the
    cores that others would need.

    Args:
        kernel: address of a function of one pointer.
        fields: what it is given.
    """
    parallel = _openmp()
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
