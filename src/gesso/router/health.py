"""Looks after the replicas: which take requests, and which are lost."""

import asyncio
import logging
from collections.abc import Callable

from gesso.router.chunks import fault_code
from gesso.router.client import NoHttpError, ReplicaLostError
from gesso.router.events import read_data
from gesso.router.replicas import Pool, Replica

log = logging.getLogger("gesso.server")

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
            async with asyncio.timeout(self._stall_seconds):
                answer = await client.send("GET", "/ready")
                body = await answer.read()
                await answer.close()
        except (ReplicaLostError, TimeoutError) as error:
            if client is replica.client:
                if isinstance(error, TimeoutError):
                    await self._lost(replica, f"no answer within {self._stall_seconds:g} seconds", "too slow to answer")
                else:
                    kind = "speaking no HTTP" if isinstance(error, NoHttpError) else "unreachable"
                    await self._lost(replica, str(error), kind)
            return
        if client is not replica.client:
            return  # it was lost meanwhile, or is another process
        code = None if answer.status == 200 else fault_code(read_data(body))
        if code in DEAD:
            await self._lost(replica, str(code), "with a dead engine")
            return
        trouble = "" if answer.status == 200 else f"HTTP {answer.status}{f' {code}' if code else ''} from /ready"
        _note(replica, trouble, f"takes no requests: {trouble}" if trouble else "takes requests again")
        replica.lost_by = ""
        was, replica.state = replica.state, "up" if answer.status == 200 else "away"
        if replica.state == "up" and was != "up":
            self._changed()

    async def _lost(self, replica: Replica, reason: str, kind: str) -> None:
        replica.lost_by = kind
        _note(replica, reason, f"is lost: {reason}")
        await self._pool.lost(replica)


def _note(replica: Replica, trouble: str, message: str) -> None:
    """Keeps what a look found, and logs it where the look before found something else."""
    if trouble != replica.trouble:
        log.warning("replica %s %s", replica.name, message)
        replica.trouble = trouble
