"""Carries the choices of one HTTP request from the engine's thread to the event loop.

A request for n choices is n requests of the engine: submitted together, cancelled together. Nothing waits in a thread
while their constraint is compiled, and when the client leaves meanwhile it is given up. Their events arrive in the
engine's thread, which must never wait for a client, and are read in the loop's. Between the two stands a queue that
holds every event, but of draft frames only the newest: a client that reads slowly misses some.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from anyio import to_thread
from starlette.types import Receive

from gesso.engine.async_engine import AsyncEngine, RequestHandle
from gesso.engine.engine import Request
from gesso.engine.events import BlockCommitted, DenoisingFrame, Event, Failed, Finished
from gesso.engine.prepared_request import PreparedRequest
from gesso.engine.result import GenerationResult
from gesso.server.access_log import Record
from gesso.server.attended import disconnected, ready_before
from gesso.server.errors import ApiError
from gesso.server.metrics import Metrics
from gesso.server.option_fields import in_fields, request_field
from gesso.server.tracing import InferenceTrace

log = logging.getLogger("gesso.server")

MAX_FRAMES = 32
"""Draft frames that wait for a slow client."""


class Choices:
    """Follows the choices of one HTTP request from the engine's thread to the event loop."""

    def __init__(
        self, metrics: Metrics, record: Record, trace: InferenceTrace | None = None, of_prompt: int = 1
    ) -> None:
        self._record = record
        self._of_prompt = of_prompt
        self._trace = trace
        self._loop = asyncio.get_running_loop()
        self._metrics = metrics
        self._queue: deque[tuple[int, Event]] = deque()
        self._frames = 0
        self._arrived = asyncio.Event()
        self._gone = asyncio.Event()
        """Set once the client has gone."""
        self.handles: list[RequestHandle] = []
        self.results: dict[int, GenerationResult] = {}
        """Results of the choices that are finished."""
        self.warnings: tuple[str, ...] = ()
        """What a client should know of every one of them."""

    @classmethod
    async def submit(
        cls,
        service: AsyncEngine,
        metrics: Metrics,
        record: Record,
        requests: Sequence[Request],
        receive: Receive,
        trace: InferenceTrace | None = None,
        of_prompt: int = 1,
        copies: str = "n",
    ) -> "Choices":
        """Queues all of them, or none. They take turns with those of other requests, and are no more than half of the
        queue.

        Args:
            of_prompt: how many of them, one after the other, have the same prompt.
            copies: the field that said so.

        Raises:
            UserError: a bad request.
            QueueFullError: they do not all fit the queue now.
            ClosingError: the service takes no more.
            ApiError: they would never fit, or the client has gone meanwhile.
        """
        limits, group = service.limits, object()
        most = limits.max_num_seqs + -(-limits.max_waiting // 2)
        if len(requests) > most:
            message = f"{len(requests)} choices are more than the {most} that this server takes of one request"
            raise ApiError(400, message, param=copies if of_prompt > 1 else "prompt")
        choices = cls(metrics, record, trace, of_prompt)
        prepared: list[PreparedRequest] = []

        def prepare() -> None:
            # One by one: those that are prepared are given up where the next one is refused.
            prepared.extend(service.prepare(replace(request, group=group)) for request in requests)

        def queue() -> None:
            if trace is not None:
                trace.queued()
            for number in range(len(requests)):
                choices.handles.append(service.submit(prepared.pop(0), choices._listener(number)))

        callback = asyncio.create_task(choices.watch(receive))
        try:
            await to_thread.run_sync(prepare)
            if trace is not None:
                trace.tokenized()
            waited = not all(waiting.ready for waiting in prepared)
            for waiting in prepared:
                await choices._until_ready(waiting, limits.request_timeout)
            if trace is not None and any(waiting.compilation is not None for waiting in prepared):
                trace.compiled(waited)
            await to_thread.run_sync(queue)
        except BaseException as error:
            choices.cancel()
            if trace is not None:
                trace.failed(type(error).__name__)
            raise
        finally:
            callback.cancel()
            for left in prepared:
                left.cancel()
            if trace is not None:
                record.closing.append(partial(trace.emit, choices.handles))
        return choices

    async def _until_ready(self, prepared: PreparedRequest, timeout: float | None) -> None:
        """Waits for a constraint, for the client to go, or until the request has taken `timeout` seconds."""
        if prepared.ready:  # whether or not its client is still there
            return
        left = None if timeout is None else max(0.0, prepared.since + timeout - time.monotonic())
        ready = await ready_before(prepared, self._gone.wait, left)
        if self._gone.is_set():
            raise self._cancelled()
        if not ready:
            raise ApiError(504, f"its constraint was not compiled within {timeout:g} seconds", code="timeout")

    def _listener(self, choice: int) -> Callable[[Event], None]:
        """What the engine's thread calls."""
        last = started = time.monotonic()
        first = True

        def listen(event: Event) -> None:
            nonlocal last, first
            if self._trace is not None:
                self._trace.event(choice, event)
            if isinstance(event, BlockCommitted):
                now = time.monotonic()
                if first:
                    self._metrics.first_block.observe(now - started)
                elif event.mode == "canvas":
                    self._metrics.canvas.observe(now - last)
                first, last = False, now
            with suppress(RuntimeError):  # the loop is closed: the server has gone
                self._loop.call_soon_threadsafe(self._put, choice, event)

        return listen

    def _put(self, choice: int, event: Event) -> None:
        if isinstance(event, DenoisingFrame):
            self._frames += 1
            if self._frames > MAX_FRAMES:
                oldest = next(number for number, (_, old) in enumerate(self._queue) if isinstance(old, DenoisingFrame))
                del self._queue[oldest]
                self._frames -= 1
        self._queue.append((choice, event))
        self._arrived.set()

    def cancel(self) -> None:
        """Cancels all choices."""
        for handle in self.handles:
            handle.cancel()

    @property
    def position(self) -> int:
        """Counts the requests before the foremost choice in the queue."""
        return min((handle.position for handle in self.handles), default=0)

    async def events(self, keep_alive_seconds: float | None = None) -> AsyncIterator[tuple[int, Event] | None]:
        """Yields events with the number of their choice until all are finished, and None after
        `keep_alive_seconds` without any.

        Raises:
            ApiError: a choice failed, or was ended by the server's end.
        """
        while len(self.results) < len(self.handles):
            while not self._queue:
                self._arrived.clear()
                try:
                    async with asyncio.timeout(keep_alive_seconds):
                        await self._arrived.wait()
                except TimeoutError:
                    yield None
            choice, event = self._queue.popleft()
            self._frames -= isinstance(event, DenoisingFrame)
            if isinstance(event, Failed):
                self.cancel()
                raise self._failure(event)
            if isinstance(event, Finished):
                warnings = (*self.warnings, *event.result.warnings)
                event = replace(event, result=replace(event.result, warnings=warnings))
                self.results[choice] = event.result
                self._record.add(event.result, counts_prompt=choice % self._of_prompt == 0)
                if event.result.finish_reason == "cancelled":
                    self.cancel()
                    raise self._cancelled()
            yield choice, event

    async def wait(self, receive: Receive) -> list[GenerationResult]:
        """Returns all results in the order of the choices; they are cancelled when the client disconnects.

        Raises:
            ApiError: as `events`.
        """
        callback = asyncio.create_task(self.watch(receive))
        try:
            async for _ in self.events():
                pass
        finally:
            callback.cancel()
            self.cancel()
        return [self.results[number] for number in range(len(self.handles))]

    async def watch(self, receive: Receive) -> None:
        """Cancels the choices when the client disconnects."""
        await disconnected(receive)
        self._record.disconnected()
        self._gone.set()
        self.cancel()

    def _failure(self, event: Failed) -> ApiError:
        if event.kind == "timeout":
            return ApiError(504, event.message, code="timeout")
        if event.kind == "refused":
            return ApiError(400, in_fields(event.message), param=event.option and request_field(event.option))
        identity = self._record.request_id
        log.error("%s: %s", identity, event.message)
        return ApiError(500, f"{event.message} (error id {identity})", code="internal_error")

    def _cancelled(self) -> ApiError:
        if self._record.outcome == "client_disconnected":
            return self._record.disconnected()
        return ApiError(503, "the server stopped this request: it is shutting down", code="shutting_down")
