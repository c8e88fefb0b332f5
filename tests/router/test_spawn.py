"""Servers that the router starts itself: what it knows of one whose process takes the place of another."""

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest

from gesso.options.user_code import IMPORT
from gesso.router import spawn
from gesso.router.health import Health
from gesso.router.replicas import Pool
from gesso.router.spawn import Spawner


class Ready:
    """A connection to a server that takes requests."""

    status, headers = 200, ()

    def __init__(self, url: str) -> None:
        self.url = url

    async def send(self, *_: Any) -> Any:
        return self

    async def read(self) -> bytes:
        return b"{}"

    async def close(self) -> None: ...


class Child:
    """A process that lives until it is told to end."""

    number: ClassVar[int] = 0

    def __init__(self) -> None:
        Child.number += 1
        self.pid = Child.number
        self.stdout = asyncio.StreamReader()
        self.stdout.feed_data(b"mini is served at http://127.0.0.1:%d\n" % (1000 + self.pid))

    def terminate(self) -> None:
        self.stdout.feed_eof()

    async def wait(self) -> int:
        return 0


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.001)


def test_a_new_process_runs_nothing_of_the_last_one(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Requests that end late are counted where they were."""
    monkeypatch.setattr(spawn, "PAUSE", 0.0)

    async def start(*_: Any, **__: Any) -> Child:
        return Child()

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start)

    async def run() -> None:
        pool = Pool(Ready)
        spawner, restarts = Spawner(1, (), "key"), list[int]()
        tasks = spawner.start(pool, Health(pool, 60, 60), lambda: restarts.append(1), lambda: None)
        await until(lambda: pool.choose([]) is not None)
        (first,) = pool.replicas.values()
        assert first.load == 1
        first.draining = True
        spawner.processes[first.name].terminate()
        await until(lambda: pool.replicas[first.name] is not first and pool.replicas[first.name].state == "up")
        second = pool.replicas[first.name]
        pool.release(first)  # whose client took until now to read its answer
        assert (first.load, second.load) == (0, 0)
        assert second.draining, "nobody said that it takes requests again"
        assert (second.pid, len(restarts)) == ((first.pid or 0) + 1, 1)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(run())
    assert re.fullmatch(r"spawned-0 ended with code -?\d+, and is started again in 0 seconds", *caplog.messages)


def test_a_process_that_cannot_be_started_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(spawn, "PAUSE", 0.0)
    tries: list[int] = []

    async def start(*_: Any, **__: Any) -> Child:
        tries.append(1)
        if len(tries) < 3:
            raise OSError(12, "Cannot allocate memory")
        return Child()

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start)

    async def run() -> None:
        pool = Pool(Ready)
        tasks = Spawner(1, (), "key").start(pool, Health(pool, 60, 60), lambda: None, lambda: None)
        await until(lambda: pool.choose([]) is not None)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(run())
    assert len(tries) == 3
    assert caplog.text.count("spawned-0 cannot be started: [Errno 12] Cannot allocate memory") == 2


@pytest.mark.usefixtures("foreign_files")
def test_a_server_imports_no_file_of_the_working_folder() -> None:
    assert b"Usage: gesso serve" in _help()


def test_a_server_imports_what_the_router_imports_of_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "of_mine.py").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(IMPORT, "of_mine")
    assert _help() == b""
    monkeypatch.syspath_prepend(tmp_path)  # as `python -m` has it
    assert b"Usage: gesso serve" in _help()


def _help() -> bytes:
    async def said() -> bytes:
        process = await Spawner(1, ["--help"], "key")._run()
        out, _ = await process.communicate()
        return out

    return asyncio.run(said())
