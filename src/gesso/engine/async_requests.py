"""Asks an engine that runs in a thread of its own from an event loop: the loop reads what the thread tells.

Nothing waits in a thread while a constraint is compiled or while there is no room, however many requests there are.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Any, Self

from gesso.engine.events import Event, Failed, Finished
from gesso.engine.listeners import Listener
from gesso.engine.prepared_request import PreparedRequest
from gesso.engine.prompt import Prompt
from gesso.engine.request import Request
from gesso.engine.request_handle import RequestHandle
from gesso.engine.result import GenerationResult
from gesso.errors import EngineDeadError, OptionError


class AsyncRequests(ABC):
    """Is asyncio's side of `AsyncEngine`: a context manager that starts and closes it, and two ways to ask."""

    def __init__(self, most: int) -> None:
        """
        Args:
            most: requests that it takes at once; others wait.
        """
        self._room = asyncio.Semaphore(most)

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
        await asyncio.to_thread(self.close)

    async def generate(self, prompt: Prompt, *, adapter: str | None = None, **options: Any) -> GenerationResult:
        """Generates an answer in the same passes as those to other requests; it is the answer of `Engine.generate`.

        Args:
            adapter: one of those that the service was made with.
            options: see `Request`.

        Raises:
            as `stream`.
        """
        async with aclosing(self.stream(prompt, frames=False, adapter=adapter, **options)) as events:
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
            ClosingError: the service takes no more requests.
            EngineDeadError: the engine has failed for good.
        """
        async with self._room, aclosing(self._follow(Request(prompt, options, adapter, frames))) as events:
            async for event in events:
                yield event

    async def _follow(self, request: Request) -> AsyncGenerator[Event]:
        loop, arrived = asyncio.get_running_loop(), asyncio.Queue[Event]()

        def listen(event: Event) -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(arrived.put_nowait, event)

        prepared = await asyncio.to_thread(self.prepare, request)
        try:
            await _ready(prepared, loop)
            handle = self.submit(prepared, listen)
        finally:
            prepared.cancel()
        try:
            while True:
                event = await arrived.get()
                if isinstance(event, Failed):
                    raise _error(event)
                yield event
                if isinstance(event, Finished):
                    return
        finally:
            handle.cancel()


async def _ready(prepared: PreparedRequest, loop: asyncio.AbstractEventLoop) -> None:
    """Waits until a request's constraint is compiled."""
    ready = asyncio.Event()

    def tell() -> None:
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(ready.set)

    prepared.on_ready(tell)
    await ready.wait()


def _error(event: Failed) -> Exception:
    if event.kind == "refused":
        return OptionError(event.message, option=event.option)
    return TimeoutError(event.message) if event.kind == "timeout" else EngineDeadError(event.message)
