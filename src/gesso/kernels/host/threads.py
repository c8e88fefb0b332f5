"""Shares work among threads that Python's lock does not hold back: compiled kernels, called through ctypes."""

import ctypes
import functools
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
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
    shares = [(work, thread, edges[thread], edges[thread + 1], done) for thread in range(1, threads)]
    sent: list[None] = []
    errors: list[BaseException | None] = []
    try:
        sent.extend(map(asked.put, shares))
        work(0, edges[0], edges[1])
    except BaseException as error:  # noqa: BLE001 - raised below
        errors.append(error)
    _await(done, len(sent), errors)
    for failure in errors:
        if failure is not None:
            raise failure


def _await(done: _Done, count: int, errors: list[BaseException | None]) -> None:
    """Waits until nobody computes any longer, also where that is interrupted; errors are added to those given.

    Queues are read and written by one call that is compiled, so that an interrupt comes before or after it.
    """
    ended: list[BaseException | None] = []
    while len(ended) < count:
        try:
            ended.extend(islice(iter(done.get, done), count - len(ended)))
        except BaseException as error:  # noqa: BLE001 - raised when all have ended
            errors.append(error)
    errors += ended


class Work(NamedTuple):
    """Names a compiled function (context, thread, begin, end), which does some units of a job."""

    call: Callable[[int, int, int, int], None]
    address: int


def address_of(function: Any) -> int:
    """Returns the address of a compiled function, one of ctypes's."""
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    return address


def work_of(function: Callable[..., None]) -> Work:
    """Names a compiled function of a job."""
    return Work(function, address_of(function))


NAP = 5e-5
"""Seconds that a caller sleeps who has waited in vain for a helper that the system does not let run."""
_AWAITED = 3
"""A helper's state, beside those of `team`: it is asleep, and what wakes it is on its way."""


class _Team:
    """Holds helpers that look on in compiled code before they sleep (see `team`)."""

    def __init__(self, helpers: int) -> None:
        from gesso.kernels.host.library import team
        from gesso.kernels.host.team import INSIDE, JOB, STATES, WORDS

        self.kernels, self.lock = team(), threading.Lock()
        self.share_address = address_of(self.kernels.share)
        line = 8 * WORDS
        self._memory = ctypes.create_string_buffer(line * (STATES + helpers + 1))
        self.begin = -(-ctypes.addressof(self._memory) // line) * line
        self.states = [ctypes.c_int64.from_address(self.begin + line * (STATES + i)) for i in range(helpers)]
        self.job, self.inside = (ctypes.c_int64.from_address(self.begin + line * word) for word in (JOB, INSIDE))
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
        if left > 0:
            self._wake()
            left = self.kernels.finish(self.begin)
        self._wait(left)

    def whole(self, jobs: Callable[[], None]) -> None:
        """Calls what opens jobs, and ends the one that an interrupt leaves open before it is raised: helpers work with
        memory of the caller's."""
        if self.job.value % 2:  # one was given up all the same, by a second interrupt: nobody may take units of it
            self.job.value += 1
        self._wait(self.inside.value)
        try:
            jobs()
        except BaseException:
            ended = False
            while not ended:
                with suppress(BaseException):  # another interrupt: the first is raised
                    self._end()
                    ended = True
            raise

    def _end(self) -> None:
        """Ends the job that is open, if there is one, wherever its opener was interrupted."""
        self._wake(interrupted=True)
        self._wait(self.kernels.finish(self.begin) if self.job.value % 2 else self.inside.value)

    def _wait(self, left: int) -> None:
        while left:
            time.sleep(NAP)
            left = self.kernels.wait(self.begin)

    def _wake(self, *, interrupted: bool = False) -> None:
        """Wakes helpers that are asleep; one that is woken twice looks on twice."""
        from gesso.kernels.host.team import CALLED

        asleep = (CALLED, _AWAITED) if interrupted else (CALLED,)
        for state, called in zip(self.states, self.called, strict=True):
            if state.value in asleep:
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
            team.whole(partial(team.share, work, context, count, _own.watch))
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

    run, left = step_kernels().run, ctypes.c_int64()
    team = _team(threads - 1) if threads > 1 else None
    if team is None or not team.lock.acquire(blocking=False):
        run(steps, 0, count, 0, 0, 1, 0, 0, ctypes.byref(left))
        return
    beside = team.share_address, team.begin, threads, _own.watch, system_calls()[2], ctypes.byref(left)

    def jobs() -> None:
        at = 0
        while (at := run(steps, at, count, *beside)) < count:
            team.settle(left.value)
            at += 1

    try:
        team.whole(jobs)
    finally:
        team.lock.release()


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
