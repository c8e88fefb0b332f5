"""Lists the models of all replicas, which need not be the same."""

import asyncio
from collections.abc import Mapping
from typing import Any

from gesso.router.asked import Asked
from gesso.router.client import ReplicaLostError
from gesso.router.events import read_data
from gesso.router.replicas import Pool, Replica

PATH = "/v1/models"
SECONDS = 2.0
"""Seconds that a replica may take: its list is at hand."""


async def all_models(pool: Pool, asked: Asked) -> Mapping[str, Any] | None:
    """Asks the replicas that take requests for their models, and puts their lists together, the first replica's first.
    One that fails is left out.

    Returns:
        the list, or None where fewer than two told theirs: one tells by itself what is there, or why not.
    """
    up = [replica for replica in pool.replicas.values() if replica.state == "up" and not replica.draining]
    told = [found for found in await asyncio.gather(*(_models(each, asked) for each in up)) if found]
    if len(told) < 2:
        return None
    cards: dict[Any, Any] = {}
    for card in (card for found in told for card in found["data"] if isinstance(card, dict)):
        cards.setdefault(card.get("id"), card)
    first, last = next(iter(cards), None), next(reversed(cards), None)
    return {**told[0], "data": [*cards.values()], "first_id": first, "last_id": last}


async def _models(replica: Replica, asked: Asked) -> dict[str, Any] | None:
    try:
        async with asyncio.timeout(SECONDS):
            answer = await replica.client.send("GET", PATH, asked.headers)
            try:
                body = await answer.read()
            finally:
                await answer.close()
    except (ReplicaLostError, TimeoutError):
        return None
    found = read_data(body) if answer.status == 200 else None
    return found if isinstance(found, dict) and isinstance(found.get("data"), list) else None
