"""Looks after the replicas: which take requests, and which are lost."""

import asyncio
from collections.abc import Callable

import httpx

from gesso.router.replicas import Pool, Replica

DEAD = {"engine_failed", "engine_hangs"}
"""Codes with which a server says that nothing comes of what it runs."""


class Health:
    """Asks every replica for `/ready`, again and again.

    Args:
        seconds: between two looks.
        stall_seconds: for which a look may take; a replica that answers nothing for so long is lost, and so is at once
            one that refuses connections, or says that its engine is dead.
        changed: is called when a replica takes requests that did not before.
    """

    def __init__(
        self, pool: Pool, seconds: float, stall_seconds: float, changed: Callable[[], None] = lambda: None
    ) -> None:
        self._pool, self._seconds, self._changed = pool, seconds, changed
        self._stall_seconds = stall_seconds
        self._looks: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Looks until it is cancelled; a replica that takes its time does not hold up looks at others."""
        try:
            while True:
                for name, replica in self._pool.replicas.items():
                    if name not in self._looks or self._looks[name].done():
                        self._looks[name] = asyncio.create_task(self._ask(replica))
                await asyncio.sleep(self._seconds)
        finally:
            for look in self._looks.values():
                look.cancel()

    async def look(self) -> None:
        """Looks at all replicas once."""
        await asyncio.gather(*(self._ask(replica) for replica in list(self._pool.replicas.values())))

    async def _ask(self, replica: Replica) -> None:
        client = replica.client
        try:
            response = await client.get("/ready", timeout=self._stall_seconds)
        except (httpx.HTTPError, RuntimeError):  # a client that was closed meanwhile is a RuntimeError
            if client is replica.client:
                await self._pool.lost(replica)
            return
        if response.status_code != 200 and _code(response) in DEAD:
            await self._pool.lost(replica)
            return
        was, replica.state = replica.state, "up" if response.status_code == 200 else "away"
        if replica.state == "up" and was != "up":
            self._changed()


def _code(response: httpx.Response) -> str | None:
    """The code of an error's answer."""
    try:
        code = response.json()["error"]["code"]
    except (ValueError, KeyError, TypeError):
        return None
    return code if isinstance(code, str) else None
