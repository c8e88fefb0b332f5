"""Keeps the state of the servers behind a router, and chooses one for each request.

A replica is *up* while it answers `/ready` with 200; *away* while it refuses, draining or not ready, though what it
runs goes on; *lost* once it cannot be reached or answers nothing, when all connections to it are cut. Apart from that
its circuit breaker *opens* after failures in a row; after a pause it lets a request try again, and while that has no
answer yet another one now and then.
"""

import hashlib
import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Literal

from gesso.router.affinity import PrefixTable, keep_together
from gesso.router.client import Client

log = logging.getLogger("gesso.server")

MOST_LACKING = 256
"""Models of which is remembered that a replica does not have them."""
FAILURES = 3
"""Failures in a row after which a breaker opens."""
PAUSE, LONGEST_PAUSE = 2.0, 60.0
"""Seconds for which it is open at first, and at most: each time twice as long."""
ANOTHER = 5.0
"""Seconds after which another request tries it: an answer may take long, and tells nothing before it is whole."""
State = Literal["up", "away", "lost"]
MakeClient = Callable[[str], Client]


@dataclass(slots=True)
class Replica:
    """Holds what the router knows of one server."""

    name: str
    url: str
    client: Client
    state: State = "lost"
    trouble: str = ""
    """Why it takes no requests, as the last look found; empty where it does. May name addresses: for operators."""
    lost_by: str = ""
    """What kind of trouble the last look that lost it met, for clients; empty where none did."""
    draining: bool = False
    """Whether someone asked to send it nothing new."""
    load: int = 0
    """Requests of this router that it runs."""
    failures: int = 0
    """Failures in a row."""
    opened: int = 0
    """How often in a row the breaker opened."""
    open_until: float = 0.0
    tried_at: float | None = None
    """When the last request began that tries the open breaker; None where none does."""
    requests: int = 0
    pid: int | None = None
    """Id of the process, where the router has started it."""
    lacks: set[str] = field(default_factory=set)
    """Models that it does not have and another one has, as far as requests have shown."""

    @property
    def open(self) -> bool:
        """Says whether the breaker has opened and not closed since."""
        return self.opened > 0

    @property
    def refuses_as(self) -> str:
        """Tells what kind of trouble keeps requests from it, if any does; without addresses or what it said."""
        if self.draining:
            return "drained"
        return {"lost": self.lost_by or "unreachable", "away": "not ready", "up": "failing at requests"}[self.state]


class Pool:
    """Holds all replicas. Of one event loop.

    Args:
        make_client: makes the connections to an address.
        slack: see `RouterSettings`.
    """

    def __init__(self, make_client: MakeClient, slack: int = 4, clock: Callable[[], float] = time.monotonic) -> None:
        self.replicas: dict[str, Replica] = {}
        self.prefixes = PrefixTable()
        self.kept = self.moved = 0
        """Requests with a known beginning that went where it is held, and that load sent elsewhere."""
        self._make_client, self._slack, self._clock = make_client, slack, clock

    def add(self, name: str, url: str) -> Replica:
        """Adds a server, or gives one of this name another address: what it remembered is gone then, and who was sent
        nothing new still is not."""
        self.prefixes.forget(name)
        replica = Replica(name, url, self._make_client(url))
        if (known := self.replicas.get(name)) is not None:
            replica.draining, replica.trouble = known.draining, known.trouble
        self.replicas[name] = replica
        return replica

    def choose(
        self, digests: Sequence[bytes], excluded: Collection[str] = (), model: str | None = None
    ) -> Replica | None:
        """Finds the server for a request and counts it as under way there; None where none takes requests.

        Those that lack its model are left out. It goes where the longest known beginning of its prompt is, as long as
        load allows it (`keep_together`). Else to the least busy server; among equals its first part decides, so that
        several routers agree.
        """
        ready = {replica.name: replica for replica in self.replicas.values() if self._takes(replica)}
        ready = {name: replica for name, replica in ready.items() if name not in excluded} or ready
        ready = {name: replica for name, replica in ready.items() if model not in replica.lacks} or ready
        if not ready:
            return None
        loads = {name: replica.load for name, replica in ready.items()}
        parts, holders = self.prefixes.find(digests)
        kept = keep_together(loads, holders, parts, self._slack)
        if kept is not None:
            self.kept += 1
            chosen = ready[kept]
        else:
            self.moved += bool(parts)
            seed = digests[0] if digests else b""
            idle = [replica for replica in ready.values() if replica.load == min(loads.values())]
            # Without a prompt to tell them apart, turns are taken.
            chosen = min(idle, key=lambda replica: _rank(seed, replica.name) if seed else (replica.requests,))
        self.prefixes.put(digests, chosen.name)
        self.take(chosen)
        return chosen

    def take(self, replica: Replica) -> None:
        """Counts a request as under way at a replica."""
        replica.load += 1
        replica.requests += 1
        replica.tried_at = self._clock() if replica.open else None

    def has_other(self, excluded: Collection[str]) -> bool:
        """Says whether a server takes requests now that is not among the excluded."""
        return any(self._takes(replica) and replica.name not in excluded for replica in self.replicas.values())

    def refusal(self) -> str:
        """Says to a client that no replica takes requests, and what kinds of trouble they have."""
        kinds = Counter(replica.refuses_as for replica in self.replicas.values() if not self._takes(replica))
        told = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
        return f"no replica takes requests{told and f': {told}'}"

    def _takes(self, replica: Replica) -> bool:
        if replica.state != "up" or replica.draining:
            return False
        now, tried = self._clock(), replica.tried_at
        return not replica.open or (now >= replica.open_until and (tried is None or now >= tried + ANOTHER))

    def release(self, replica: Replica) -> None:
        """Counts a request as over."""
        replica.load -= 1
        replica.tried_at = None

    def succeeded(self, replica: Replica) -> None:
        """Closes the breaker."""
        replica.failures = replica.opened = 0

    def failed(self, replica: Replica) -> None:
        """Counts a failure, which may open the breaker."""
        replica.failures += 1
        if replica.failures >= FAILURES or replica.open:
            replica.open_until = self._clock() + min(LONGEST_PAUSE, PAUSE * 2**replica.opened)
            replica.opened = min(16, replica.opened + 1)

    def leaving(self, replica: Replica) -> None:
        """Notes that a replica takes nothing for now: until it answers a look."""
        if replica.state == "up":
            replica.state = "away"

    def forgive(self, replica: Replica) -> None:
        """Takes back a failure that was the request's, and what it opened."""
        replica.failures = max(0, replica.failures - 1)
        if replica.failures < FAILURES:
            replica.opened = 0

    def note_lacking(self, model: str | None, lacking: Sequence[Replica], found: Replica) -> None:
        """Notes that some replicas do not have a model that one has."""
        if model is None:
            return
        for replica in lacking:
            known = replica is found or model in replica.lacks
            if not known and len(replica.lacks) < MOST_LACKING:
                log.warning("replica %s has no model %r, replica %s has", replica.name, model, found.name)
                replica.lacks.add(model)

    async def lost(self, replica: Replica) -> None:
        """Cuts all connections to a replica: whoever waits for it is told, and asks another one."""
        if replica.state == "lost":
            return
        replica.state = "lost"
        replica.lacks.clear()  # it may come back with others
        self.prefixes.forget(replica.name)
        client, replica.client = replica.client, self._make_client(replica.url)
        await client.close()

    async def close(self) -> None:
        """Cuts all connections."""
        for replica in self.replicas.values():
            await replica.client.close()


def _rank(seed: bytes, name: str) -> tuple[int]:
    """Rendezvous hashing: each beginning has an order of servers of its own."""
    return (int.from_bytes(hashlib.blake2b(seed + name.encode(), digest_size=8).digest(), "big"),)
