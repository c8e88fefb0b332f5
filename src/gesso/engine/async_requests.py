"""Asks an engine that runs in a thread of its own from event loops: the loop reads what the thread tells.

What takes time before a request is queued, such as its tokens and the tables of its constraint, is done in a few
threads that are the service's own; nothing waits in them while a constraint is compiled or while there is no room.
"""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, aclosing, suppress
from dataclasses import replace
from functools import partial
from typing import Any, Self, TypeVar
from weakref import WeakKeyDictionary

from gesso.engine.events import Event, Failed, Finished
from gesso.engine.listeners import Listener
from gesso.engine.prepared_request import PreparedRequest
from gesso.engine.prompt import Prompt
from gesso.engine.request import Request
from gesso.engine.request_handle import RequestHandle
from gesso.engine.result import GenerationResult
from gesso.errors import ClosingError, EngineDeadError, OptionError, QueueFullError

T = TypeVar("T")
LOOK_SECONDS = 0.02
"""Seconds between two looks for room, where others than the tasks of this loop took it."""


class AsyncRequests(ABC):
    """Is asyncio's side of `AsyncEngine`: a context manager that starts and closes it, and two ways to ask."""

    def __init__(self, most: int, timeout: float | None) -> None:
        """
        Args:
            most: requests that it takes at once; others wait.
            timeout: seconds that a request may take, its wait for room included; None is no limit.
        """
        self._most, self._timeout = most, timeout
        self._places: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()
        self._threads = ThreadPoolExecutor(max_workers=4, thread_name_prefix="gesso-requests")

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def prepare(self, request: Request) -> PreparedRequest: ...

    @abstractmethod
    def submit(self, request: PreparedRequest, listener: Listener) -> RequestHandle: ...

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._in_thread(self.close)
        self._threads.shutdown(wait=False)

    async def generate(self, prompt: Prompt, *, adapter: str | None = None, **options: Any) -> GenerationResult:
        """Generates an answer in the same passes as those to other requests; it is the answer of `Engine.generate`.

        Args:
            adapter: one of those that the service was made with.
            options: see `Request`.

        Raises:
            as `stream`.
        """
        async with aclosing(self._follow(Request(prompt, options, adapter))) as events:
            async for event in events:
                if isinstance(event, Finished):
                    return event.result
        raise AssertionError("the last event is the result")

    async def stream(
        self, prompt: Prompt, *, frames: bool = True, adapter: str | None = None, **options: Any
    ) -> AsyncGenerator[Event]:
        """Yields the events of one request as they come. One that is left before its end is cancelled.

        Raises:
            OptionError, TextError: as `Engine.generate`.
            TimeoutError: it took longer than the limit `request_timeout`.
            ClosingError: the service is closed, or was before the answer was whole.
            EngineDeadError: the engine has failed for good.
        """
        async with aclosing(self._follow(Request(prompt, options, adapter, frames))) as events:
            async for event in events:
                yield event

    async def _follow(self, request: Request) -> AsyncGenerator[Event]:
        loop, arrived = asyncio.get_running_loop(), asyncio.Queue[Event]()

        def listen(event: Event) -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(arrived.put_nowait, event)

        since = time.monotonic()
        place = self._places.setdefault(loop, asyncio.Semaphore(self._most))
        async with AsyncExitStack() as held:
            try:
                async with asyncio.timeout(self._timeout):
                    await held.enter_async_context(place)
                    handle = await self._enter(replace(request, since=since), listen)
            except TimeoutError:
                raise TimeoutError(f"not finished within {self._timeout:g} seconds") from None
            held.callback(handle.cancel)
            while True:
                event = await arrived.get()
                if isinstance(event, Failed):
                    raise _error(event) from handle.error
                if isinstance(event, Finished) and event.result.finish_reason == "cancelled":
                    raise ClosingError("the service was closed before the answer was whole")
                yield event
                if isinstance(event, Finished):
                    return

    async def _enter(self, request: Request, listen: Listener) -> RequestHandle:
        """Queues a request; waits while others than this loop's tasks have all the room."""
        while True:
            try:
                prepared = await self._in_thread(partial(self.prepare, request), PreparedRequest.cancel)
                try:
                    await _ready(prepared)
                    return await self._in_thread(partial(self.submit, prepared, listen), RequestHandle.cancel)
                finally:
                    prepared.cancel()
            except QueueFullError:
                await asyncio.sleep(LOOK_SECONDS)

    async def _in_thread(self, act: Callable[[], T], undo: Callable[[T], None] | None = None) -> T:
        """Does something in a thread; where nobody waits for it any more, it is done and undone."""
        try:
            doing = asyncio.get_running_loop().run_in_executor(self._threads, act)
        except RuntimeError:
            raise ClosingError("the service is closed") from None
        try:
            return await asyncio.shield(doing)
        except asyncio.CancelledError:

            def leave(done: asyncio.Future[T]) -> None:
                if not done.cancelled() and done.exception() is None and undo is not None:
                    undo(done.result())

            doing.add_done_callback(leave)
            raise


async def _ready(prepared: PreparedRequest) -> None:
    """Waits until a request's constraint is compiled."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()

    def tell() -> None:
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(ready.set)

    prepared.on_ready(tell)
    await ready.wait()


def _error(event: Failed) -> Exception:
    if event.kind == "refused":
        return OptionError(event.message, option=event.option)
    return TimeoutError(event.message) if event.kind == "timeout" else EngineDeadError(event.message)
