"""Looks after the replicas: which take requests, and which are lost."""

import asyncio
from collections.abc import Callable

import httpx

from gesso.router.replicas import Pool, Replica

MISSES = 2
"""Looks in a row that time out, after which a replica is lost; one that refuses connections is so at once."""


class Health:
    """Asks every replica for `/ready`, again and again.

    Args:
        seconds: between two looks, and for how long one may take.
        changed: is called when a replica may take requests that did not before.
    """

    def __init__(self, pool: Pool, seconds: float, changed: Callable[[], None] = lambda: None) -> None:
        self._pool, self._seconds, self._changed = pool, seconds, changed

    async def run(self) -> None:
        """Looks until it is cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(self._seconds)

    async def look(self) -> None:
        """Looks at all replicas once, at the same time."""
        await asyncio.gather(*(self._ask(replica) for replica in list(self._pool.replicas.values())))

    async def _ask(self, replica: Replica) -> None:
        client = replica.client
        try:
            response = await client.get("/ready", timeout=self._seconds)
        except httpx.TimeoutException:
            # Not at once: a machine may be slow for a moment.
            replica.missed += 1
            if replica.missed >= MISSES and client is replica.client:
                await self._pool.lost(replica)
            return
        except (httpx.HTTPError, RuntimeError):  # a client that was closed meanwhile is a RuntimeError
            if client is replica.client:
                await self._pool.lost(replica)
            return
        replica.missed = 0
        was, replica.state = replica.state, "up" if response.status_code == 200 else "away"
        if replica.state == "up" and was != "up":
            self._changed()
