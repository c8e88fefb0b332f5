"""What ends a thread before the interpreter."""

import atexit
import gc
import threading
from typing import Any

import pytest

from gesso.engine.exit_hook import ExitHook


class Service:
    """Has a thread that ends when it is told to."""

    def __init__(self) -> None:
        self.told = threading.Event()
        self.thread = threading.Thread(target=self.told.wait)
        self.thread.start()
        self.hook = ExitHook(self.stop)

    def stop(self) -> threading.Thread:
        self.told.set()
        return self.thread


def test_it_stops_the_thread_and_waits_for_it() -> None:
    service = Service()
    service.hook()
    assert not service.thread.is_alive()


def test_it_keeps_nobody_alive() -> None:
    service = Service()
    hook, told = service.hook, service.told
    del service
    gc.collect()
    hook()
    assert not told.is_set()
    told.set()


def test_it_is_asked_for_and_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    hooks: list[Any] = []
    monkeypatch.setattr(atexit, "register", hooks.append)
    monkeypatch.setattr(atexit, "unregister", hooks.remove)
    service = Service()
    service.hook.register()
    assert hooks == [service.hook]
    service.hook.unregister()
    assert hooks == []
    service.stop().join()
