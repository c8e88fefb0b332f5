"""Shares work among threads that Python's lock does not hold back: compiled kernels, called through ctypes."""

import functools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

Share = Callable[[int, int, int], None]
"""Does one thread's share: the thread's number, where it begins and where it ends."""


@functools.cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="gesso-kernel")


if hasattr(os, "register_at_fork"):
    # A child process has none of its parent's threads.
    os.register_at_fork(after_in_child=_pool.cache_clear)


def share_out(work: Share, count: int, threads: int) -> None:
    """Divides `count` things evenly among threads, of which the caller is one, and waits for all of them."""
    if threads == 1:
        work(0, 0, count)
        return
    edges = [count * thread // threads for thread in range(threads + 1)]
    waiting = [
        _pool(threads - 1).submit(work, thread, edges[thread], edges[thread + 1]) for thread in range(1, threads)
    ]
    work(0, edges[0], edges[1])
    for share in waiting:
        share.result()
