"""Threads that nothing waits for: how many run, what is dropped, and the end of the process."""

import subprocess
import sys
import threading
import weakref

import pytest

from gesso.errors import ClosingError
from gesso.server.daemon_pool import DaemonPool

SECONDS = 30


def test_what_is_given_up_keeps_its_place_until_it_returns() -> None:
    pool, release, begun = DaemonPool(2, "test"), threading.Event(), threading.Semaphore(0)

    def work() -> int:
        begun.release()
        release.wait(SECONDS)
        return 1

    futures = [pool.submit(work) for _ in range(5)]
    assert all(begun.acquire(timeout=SECONDS) for _ in range(2))
    assert not futures[0].cancel()
    assert futures[4].cancel()
    assert not futures[2].running()
    release.set()
    assert [future.result(SECONDS) for future in futures[:4]] == [1] * 4
    assert pool.submit(lambda: 2).result(SECONDS) == 2


def test_a_thread_that_cannot_start_takes_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    pool = DaemonPool(2, "test")
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        for _ in range(3):
            with pytest.raises(RuntimeError, match="can't start new thread"):
                pool.submit(lambda: 1)
    assert pool.submit(lambda: 2).result(SECONDS) == 2


def test_errors_are_the_caller_s() -> None:
    with pytest.raises(ZeroDivisionError):
        DaemonPool(1, "test").submit(lambda: 1 / 0).result(SECONDS)


def test_what_is_cancelled_while_it_waits_is_let_go_of() -> None:
    pool, release = DaemonPool(1, "test"), threading.Event()

    class Large:
        def __call__(self) -> None: ...

    first, large = pool.submit(lambda: release.wait(SECONDS)), Large()
    held, second = weakref.ref(large), pool.submit(large)
    del large
    assert held() is not None
    second.cancel()
    assert held() is None
    release.set()
    assert first.result(SECONDS)


def test_a_closed_pool_ends_what_waits_for_it() -> None:
    pool, release, begun = DaemonPool(1, "test"), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        release.wait(SECONDS)

    futures = [pool.submit(work), pool.submit(work)]
    assert begun.wait(SECONDS)
    pool.close()
    for future in futures:
        with pytest.raises(ClosingError):
            future.result(SECONDS)
    with pytest.raises(ClosingError):
        pool.submit(work)
    release.set()


def test_a_process_ends_while_one_runs() -> None:
    program = (
        "import threading\n"
        "from gesso.server.daemon_pool import DaemonPool\n"
        "begun = threading.Event()\n"
        "DaemonPool(1, 'test').submit(lambda: (begun.set(), threading.Event().wait(600)))\n"
        "begun.wait()\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], timeout=SECONDS, capture_output=True, check=True)
    assert not ended.stderr
