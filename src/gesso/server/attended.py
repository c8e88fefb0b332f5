"""Waits for work that comes before a request is queued, for as long as its client does and its time lasts."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Protocol, TypeVar

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
            raise http.state.record.disconnected()
        raise ApiError(504, f"{late} within {timeout:g} seconds", code="timeout")
    finally:
        working.cancel()
        leaving.cancel()


class Awaited(Protocol):
    """Becomes ready in another thread, which tells so."""

    @property
    def ready(self) -> bool:
        """Says whether nothing is left to wait for."""

    def on_ready(self, listener: Callable[[], None]) -> None:
        """Calls `listener` when it is ready, in whatever thread; at once where it is already."""


async def ready_before(
    awaited: Awaited, leaving: Callable[[], Coroutine[Any, Any, object]], seconds: float | None = None
) -> bool:
    """Waits without a thread until something is ready, its client leaves or the time is over; says whether it is ready.

    Args:
        leaving: waits until the client has gone.
    """
    if awaited.ready:
        return True
    loop, changed = asyncio.get_running_loop(), asyncio.Event()

    def tell() -> None:
        with suppress(RuntimeError):  # the loop is closed: the server has gone
            loop.call_soon_threadsafe(changed.set)

    awaited.on_ready(tell)
    waits = [asyncio.create_task(wait) for wait in (changed.wait(), leaving())]
    try:
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
    return changed.is_set()


async def disconnected(receive: Receive) -> None:
    """Returns once the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
