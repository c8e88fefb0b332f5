"""Marks passes on a CPU over weights that kernels read, and gives PyTorch one thread, and those kernels' products
several, while one of few rows runs.

What stands between the products of a token is small, and yet PyTorch wakes OpenMP's threads for some of it. They go on
looking out for work for milliseconds afterwards, on the processors that the products' helpers need. So they are left
asleep, and the helpers look on instead, for as long as a layer's next product may take to come (`WATCH`). Matmuls of
a library, and attention over many keys, take all threads as ever: `all_threads`. No bit depends on threads.

Whether kernels compute what stands between products does not depend on the number of rows, so that a row's bits do not
either: that a pass is marked says so.
"""

import ctypes
import functools
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import torch

from gesso.kernels.host.threads import fixed_threads, product_threads, products_by
from gesso.nn.cpu_threads import allowed_cpus, quota

FEW_ROWS = 8
"""Rows of a pass up to which what stands between products is small."""
WATCH = 700_000
"""Nanoseconds that helpers look on between two products: attention in between takes about half a millisecond."""


class _Marked(threading.local):
    on_host = False


_marked = _Marked()


def in_host_pass() -> bool:
    """Says whether this thread is in a pass that `host_pass` runs."""
    return _marked.on_host


@contextmanager
def host_pass(rows: int, few: int = FEW_ROWS) -> Iterator[None]:
    """Runs a pass on a CPU over weights that kernels read; of more than `few` rows with threads as ever."""
    before, _marked.on_host = _marked.on_host, True
    try:
        with _few_rows(rows, few):
            yield
    finally:
        _marked.on_host = before


@contextmanager
def _few_rows(rows: int, few: int) -> Iterator[None]:
    threads = torch.get_num_threads()
    take = None if rows > few or in_few_rows() else own_threads()
    if take is None:
        yield
        return
    # Threads that outnumber processors would look on where others want to compute.
    with products_by(threads, WATCH if threads <= processors() else 0):
        take(1)
        try:
            yield
        finally:
            take(threads)


def in_few_rows() -> bool:
    """Says whether this thread is in a pass of few rows that `host_pass` runs."""
    return fixed_threads()


def all_threads() -> "_AllThreads | nullcontext[None]":
    """Gives PyTorch the threads back that it has outside of a pass of few rows."""
    return _AllThreads() if product_threads() != torch.get_num_threads() else nullcontext()


class _AllThreads:
    def __enter__(self) -> None:
        take = own_threads()
        assert take is not None
        self._take, self._before = take, torch.get_num_threads()
        take(product_threads())

    def __exit__(self, *_: object) -> None:
        self._take(self._before)


def processors() -> int:
    """Counts the processors that this process may use at once."""
    return min(len(allowed_cpus()), _quota() or len(allowed_cpus()))


@functools.cache
def _quota() -> int | None:
    return quota()


def torch_library() -> ctypes.CDLL:
    """Returns PyTorch's library, with the functions of those that it was linked with.

    Raises:
        OSError: it is not where it should be.
    """
    name = {"darwin": "libtorch_cpu.dylib", "win32": "torch_cpu.dll"}.get(sys.platform, "libtorch_cpu.so")
    return ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / name))


@functools.cache
def own_threads() -> Callable[[int], None] | None:
    """Returns a function that says how many threads PyTorch takes in the calling thread; None where there is none.

    `torch.set_num_threads` also sets what threads begin with that use PyTorch for the first time: one that did so while
    a pass runs here would stay with a single thread for ever.
    """
    try:
        library = torch_library()
        setters = [library.omp_set_num_threads]
        if torch.backends.mkl.is_available():
            setters.append(library.MKL_Set_Num_Threads_Local)
    except (OSError, AttributeError):
        return None

    def take(threads: int) -> None:
        for setter in setters:
            setter(threads)

    before, found = torch.get_num_threads(), []
    for count in (1, 2, before):
        take(count)
        found.append(torch.get_num_threads())
    return take if found == [1, 2, before] else None
