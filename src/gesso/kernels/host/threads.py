"""Shares work among threads that Python's lock does not hold back: compiled kernels, called through ctypes."""

import ctypes
import functools
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any, NamedTuple

import torch

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


class Work(NamedTuple):
    """Names a compiled function (context, thread, begin, end), which does some units of a job."""

    call: Callable[[int, int, int, int], None]
    address: int


def address_of(function: Any) -> int:
    """Returns the address of a compiled function, one of ctypes's."""
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    return address


NAP = 5e-5
"""Seconds that a caller sleeps who has waited in vain for a helper that the system does not let run."""
_AWAITED = 3
"""A helper's state, beside those of `team`: it is asleep, and what wakes it is on its way."""


class _Team:
    """Holds helpers that look on in compiled code before they sleep (see `team`)."""

    def __init__(self, helpers: int) -> None:
        from gesso.kernels.host.library import team
        from gesso.kernels.host.team import STATES, WORDS

        self.kernels, self.lock = team(), threading.Lock()
        self.share_address = address_of(self.kernels.share)
        line = 8 * WORDS
        self._memory = ctypes.create_string_buffer(line * (STATES + helpers + 1))
        self.begin = -(-ctypes.addressof(self._memory) // line) * line
        self.states = [ctypes.c_int64.from_address(self.begin + line * (STATES + i)) for i in range(helpers)]
        self.called = [SimpleQueue[None]() for _ in range(helpers)]
        for number in range(helpers):
            threading.Thread(target=self._serve, args=(number,), name=f"gesso-product_{number}", daemon=True).start()

    def _serve(self, number: int) -> None:
        clock, kind, cpu = system_calls()
        while True:
            self.called[number].get()
            self.kernels.serve(self.begin, number, clock, kind, cpu)

    def share(self, work: Work, context: int, count: int, watch: int) -> None:
        """Does a job together with the helpers; see `share_units`."""
        begin, threads = self.begin, len(self.states) + 1
        self.settle(self.kernels.share(begin, work.address, context, count, threads, watch, system_calls()[2]))

    def settle(self, left: int) -> None:
        """Ends a job of which `team`'s `share` returned this."""
        begin, asleep = self.begin, left > 0
        try:
            if asleep:
                self._wake()
        finally:  # nobody computes any longer, whatever happened here
            if asleep:
                left = self.kernels.finish(begin)
            while left:
                time.sleep(NAP)
                left = self.kernels.wait(begin)

    def _wake(self) -> None:
        from gesso.kernels.host.team import CALLED

        for state, called in zip(self.states, self.called, strict=True):
            if state.value == CALLED:
                state.value = _AWAITED
                called.put(None)


@functools.cache
def _team(helpers: int) -> _Team:
    return _Team(helpers)


if hasattr(os, "register_at_fork"):
    # A child process has none of its parent's threads.
    os.register_at_fork(after_in_child=_helpers.cache_clear)
    os.register_at_fork(after_in_child=_team.cache_clear)


@functools.cache
def system_calls() -> tuple[int, int, int]:
    """Returns the address of `clock_gettime`, its steady clock, and the address of `sched_getcpu`; 0 where the system
    has none: then helpers sleep as soon as they have nothing to do."""
    try:
        library = ctypes.CDLL(None)
    except (OSError, TypeError):  # no such thing as the process's own symbols
        return 0, 0, 0
    found = [getattr(library, name, None) for name in ("clock_gettime", "sched_getcpu")]
    clock, cpu = (ctypes.cast(function, ctypes.c_void_p).value or 0 if function else 0 for function in found)
    return clock, getattr(time, "CLOCK_MONOTONIC", 0), cpu


def share_units(work: Work, context: int, count: int, threads: int) -> None:
    """Does a compiled job of `count` units by so many threads, of which the caller is one, and waits for all of them.

    They take units as they come, so that one who is held up does not hold up the others. Where the helpers are at
    another caller's job, this one does its own alone.
    """
    if threads > 1 and (team := _team(threads - 1)).lock.acquire(blocking=False):
        try:
            team.share(work, context, count, _own.watch)
        finally:
            team.lock.release()
    else:
        work.call(context, 0, 0, count)


def run_steps(steps: int, count: int, threads: int) -> None:
    """Does a list of compiled steps (see `steps`), of which threads share those that say so.

    Args:
        steps: address of the first one.
    """
    from gesso.kernels.host.step_kernels import step_kernels

    run, left, at = step_kernels().run, ctypes.c_int64(), 0
    beside = _team(threads - 1) if threads > 1 else None
    if beside is None or not beside.lock.acquire(blocking=False):
        run(steps, 0, count, 0, 0, 1, 0, 0, ctypes.byref(left))
        return
    try:
        share, cpu = beside.share_address, system_calls()[2]
        while (at := run(steps, at, count, share, beside.begin, threads, _own.watch, cpu, ctypes.byref(left))) < count:
            beside.settle(left.value)
            at += 1
    finally:
        beside.lock.release()


class _Own(threading.local):
    threads: int | None = None
    watch = 0


_own = _Own()


def product_threads() -> int:
    """Returns how many threads share a product of packed weights: as many as PyTorch's, but where `products_by` says
    otherwise."""
    return _own.threads or torch.get_num_threads()


def fixed_threads() -> bool:
    """Says whether `products_by` is in force in this thread."""
    return _own.threads is not None


@contextmanager
def products_by(threads: int, watch: int) -> Iterator[None]:
    """Shares this thread's products among so many; helpers look on for `watch` nanoseconds before they sleep."""
    before = _own.threads, _own.watch
    _own.threads, _own.watch = threads, watch
    try:
        yield
    finally:
        _own.threads, _own.watch = before
