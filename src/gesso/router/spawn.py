"""Starts servers of this machine as processes, and starts those again that end.

A child lives no longer than its router, whatever ends that one: it reads from a pipe that closes with it
(`gesso.router.child`). It listens on the loopback at a port of its own choice, and asks for a key that only the router
has.
"""

import asyncio
import contextlib
import logging
import os
import re
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Sequence

from gesso.options.user_code import path_flags
from gesso.router.health import Health
from gesso.router.replicas import Pool

log = logging.getLogger("gesso.server")

PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Seconds before a child is started again; twice as long each time that it ended without ever being ready."""
MISTAKE = 2
"""Exit code of a command whose arguments are wrong."""
START_SECONDS = 900.0
"""Seconds for which a child may load its model."""


class Spawner:
    """Runs so many `gesso serve` with these arguments.

    Args:
        key: what they ask for.
    """

    def __init__(self, number: int, arguments: Sequence[str], key: str) -> None:
        self._number, self._arguments, self._key = number, tuple(arguments), key
        self.processes: dict[str, Process] = {}

    def start(
        self, pool: Pool, health: Health, restarted: Callable[[], None], refused: Callable[[], None]
    ) -> list[asyncio.Task[None]]:
        """Begins to run them; returns what keeps each of them running. Calls `restarted` before one is started again,
        and `refused` where the arguments are such that none could ever start."""
        return [
            asyncio.create_task(self._keep(f"spawned-{number}", pool, health, restarted, refused))
            for number in range(self._number)
        ]

    async def _keep(
        self, name: str, pool: Pool, health: Health, restarted: Callable[[], None], refused: Callable[[], None]
    ) -> None:
        pause = PAUSE
        while True:
            try:
                was_ready, code = await self._live(name, pool, health)
            except OSError as error:  # of memory, or of processes, there may be more again
                log.warning("%s cannot be started: %s", name, error)
                was_ready, code = False, None
            if code == MISTAKE and not was_ready:
                refused()
                return
            pause = PAUSE if was_ready else pause
            if code is not None:
                log.warning("%s ended with code %d, and is started again in %g seconds", name, code, pause)
            await asyncio.sleep(pause)
            pause = min(LONGEST_PAUSE, pause * 2)
            restarted()

    async def _live(self, name: str, pool: Pool, health: Health) -> tuple[bool, int]:
        """Runs one of them to its end; returns whether it was ever ready, and its exit code."""
        process = await self._run()
        self.processes[name] = process
        url = await self._address(process)
        if url is not None:
            old = pool.replicas.get(name)
            if old is not None:
                await pool.lost(old)
                await old.client.close()
            pool.add(name, url).pid = process.pid
            await health.look()
            await _drop(process.stdout)
        else:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        code = await process.wait()
        if (gone := pool.replicas.get(name)) is not None:
            await pool.lost(gone)
        return url is not None, code

    async def _run(self) -> Process:
        child = [sys.executable, *path_flags(), "-m", "gesso.router.child"]
        command = [*child, "--host", "127.0.0.1", "--port", "0", *self._arguments]
        environment = {**os.environ, "GESSO_API_KEY": self._key}
        return await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, env=environment)

    async def _address(self, process: Process) -> str | None:
        """Waits for the line that says where it listens; None where it ends before, or takes too long."""
        assert process.stdout is not None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(START_SECONDS):
                while line := await process.stdout.readline():
                    if found := re.search(rb" is served at (http://\S+)", line):
                        return found[1].decode()
        return None

    async def stop(self, seconds: float) -> None:
        """Ends all of them: kindly, and after so long at once."""
        for process in self.processes.values():
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
        for process in self.processes.values():
            try:
                async with asyncio.timeout(seconds + 10):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()


async def _drop(stream: asyncio.StreamReader | None) -> None:
    """Reads what nobody needs, to the end."""
    assert stream is not None
    while await stream.read(2**16):
        pass
