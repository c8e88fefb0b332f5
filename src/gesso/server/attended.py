"""Waits for work that comes before a request is queued, for as long as its client does and its time lasts."""

import asyncio
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import Request as HttpRequest
from starlette.types import Receive

from gesso.server.errors import ApiError

T = TypeVar("T")


async def attended(
    work: Coroutine[Any, Any, T], http: HttpRequest, since: float, timeout: float | None, late: str
) -> T:
    """Returns the result of `work`, which is cancelled where nobody waits for it any more.

    Args:
        since: when the request's time began, by the monotonic clock.
        timeout: seconds that it has from then on; None for no bound.
        late: what is said where they are over.

    Raises:
        ApiError: the client has gone, or the time is over; else what the work raises.
    """
    working, leaving = asyncio.create_task(work), asyncio.create_task(disconnected(http.receive))
    left = None if timeout is None else max(0.0, since + timeout - time.monotonic())
    try:
        await asyncio.wait([working, leaving], timeout=left, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        if leaving.done():
            http.state.record.outcome = "client_disconnected"
            raise ApiError(499, "the client hung up")
        raise ApiError(504, f"{late} within {timeout:g} seconds", code="timeout")
    finally:
        working.cancel()
        leaving.cancel()


async def disconnected(receive: Receive) -> None:
    """Returns once the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
