"""Answers requests by asking replicas, again where one fails, and goes on with streams that were broken off.

A request is sent again only as long as the client has nothing of an answer, or to go on behind what it has (`Ledger`),
and as often as `Tries` allows. An error that says nothing of the request, a connection that breaks and a stream that
stops before its last event count against the replica; any other answer is the client's. Whatever goes wrong here, a
stream that has begun ends with an event that says so.
"""

import asyncio
import logging
import time
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any

from starlette.types import Receive, Scope, Send

from gesso.router.asked import Asked, Pins, read_body
from gesso.router.chunks import is_fault
from gesso.router.client import Answer, NotListeningError, ReplicaLostError, header
from gesso.router.events import EVENTS, LINES, BadStreamError, Splitter, StreamEvent, read_data
from gesso.router.failure import FailedError
from gesso.router.ledger import DivergedError, Ledger
from gesso.router.metrics import RouterMetrics
from gesso.router.replicas import Pool, Replica
from gesso.router.settings import RouterSettings
from gesso.router.spans import TrySpans
from gesso.router.tries import Tries
from gesso.router.writer import Writer
from gesso.server.attended import disconnected
from gesso.server.errors import ApiError

log = logging.getLogger("gesso.server")

_AGAIN = (429, 500, 502, 503)
"""Answers that another replica may give otherwise."""
MOST_CRASHES = 3
"""Replicas that a request may crash at before it is answered so."""
KEEP_ALIVE_SECONDS = 10.0
LARGE_BODY = 2**17
"""Bytes."""


class Forward:
    """Forwards requests to replicas."""

    def __init__(self, settings: RouterSettings, pool: Pool, metrics: RouterMetrics) -> None:
        self._settings, self._pool, self._metrics = settings, pool, metrics
        self._pins = Pins()
        self.ready = asyncio.Event()
        """Set whenever a replica may have come back."""
        self.stopping = asyncio.Event()
        """Set at the end: what still runs is told."""
        self.running = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        writer = Writer(scope["path"], send)
        self.running += 1
        try:
            body = await read_body(scope, receive, self._settings.max_body_bytes)
            # A large body takes a while to read, and others are not to wait for it.
            make = partial(Asked, scope, body, self._settings.replica_api_key, self._pins)
            asked = await asyncio.to_thread(make) if len(body) > LARGE_BODY else make()
            spans = TrySpans(scope["state"]["record"].span, asked)
            await self._until_gone(self._answer(asked, writer, spans), receive, scope)
        except ApiError as error:
            if writer.started:  # the status of the answer, which the log goes by, is a good one
                scope["state"]["record"].outcome = "error"
            await writer.fail(error)
        except Exception:
            # Left to itself, this would close the connection in the middle of a stream, without a word.
            if not writer.started:
                raise
            log.exception("%s crashed", scope["state"]["record"].request_id)
            scope["state"]["record"].outcome = "error"
            self._metrics.broken.inc()
            await writer.fail(ApiError(500, "the router failed at this stream", code="internal_error"))
        finally:
            self.running -= 1

    async def _until_gone(self, answer: Coroutine[Any, Any, None], receive: Receive, scope: Scope) -> None:
        """Runs the answer to its end, unless the client goes away or the router stops."""
        work = asyncio.ensure_future(answer)
        gone = asyncio.ensure_future(disconnected(receive))
        stop = asyncio.ensure_future(self.stopping.wait())
        try:
            await asyncio.wait((work, gone, stop), return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()
                return
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            if gone.done():
                scope["state"]["record"].disconnected()
            else:
                raise ApiError(503, "the router stopped this request: it is shutting down", code="shutting_down")
        finally:
            for task in (work, gone, stop):
                task.cancel()
            await asyncio.gather(work, gone, stop, return_exceptions=True)

    async def _answer(self, asked: Asked, writer: Writer, spans: TrySpans) -> None:
        ledger, began = Ledger(), time.monotonic()
        tries = Tries(self._settings.retries, self._settings.retry_seconds)
        excluded: set[str] = set()
        crashed: list[Replica] = []
        lacking: list[Replica] = []
        while True:
            replica = await self._choose(asked, excluded, writer, spans)
            spans.begin(replica)
            try:
                await self._ask(replica, asked, ledger, writer, began, spans)
                self._pool.succeeded(replica)
                self._pool.note_lacking(asked.model, lacking, replica)
                return
            except NotListeningError as error:
                spans.failed(error)
                # Nobody is there: that was no try, and the next one waits for a replica that is.
                failure: Exception = error
                await self._pool.lost(replica)
                again = True
            except DivergedError as error:
                spans.failed(error)
                if ledger.began or not (ledger.can_begin and asked.begin_with(ledger.text)):
                    self._metrics.broken.inc()
                    message = "a replica was lost, and another one writes otherwise: the stream cannot go on"
                    raise ApiError(503, message, code="replica_lost") from None
                ledger.restart(begin=True)
                self._metrics.resumed.labels("begin").inc()
                spans.resumed = "begin"
                continue
            except Exception as error:
                spans.failed(error)
                if not isinstance(error, FailedError | ReplicaLostError | BadStreamError):
                    log.exception("%s: what replica %s said cannot be read", writer.path, replica.name)
                if tries.reached(ledger.progress):
                    excluded = set()  # all replicas have another chance
                excluded.add(replica.name)
                if isinstance(error, FailedError) and error.lacks_model(asked.path):
                    lacking.append(replica)
                failure, again = error, self._counts(error, replica, tries, excluded, crashed)
            finally:
                spans.end()
                self._pool.release(replica)
            log.warning("replica %s: %s", replica.name, _describe(failure))
            if not again or asked.pinned is not None:
                await self._give_up(failure, ledger, writer)
                return
            self._metrics.retries.labels(replica.name).inc()
            self._go_on(asked, ledger, writer, spans)

    def _counts(
        self, error: Exception, replica: Replica, tries: Tries, excluded: set[str], crashed: list[Replica]
    ) -> bool:
        """Counts a failure against the replica and the request; says whether that is sent again."""
        if isinstance(error, FailedError) and error.is_elsewhere:
            return self._pool.has_other(excluded)
        if isinstance(error, FailedError) and error.is_full:
            return tries.answered() and self._pool.has_other(excluded)
        if isinstance(error, FailedError) and error.is_crash:
            crashed.append(replica)
            self._pool.failed(replica)
            again = len(crashed) < MOST_CRASHES and tries.answered() and self._pool.has_other(excluded)
            for each in () if again else crashed:  # where none answers, it may be the request's fault
                self._pool.forgive(each)
            return again
        if isinstance(error, FailedError) and error.is_leaving:
            self._pool.leaving(replica)
            return tries.lost()
        self._pool.failed(replica)
        return tries.lost() if isinstance(error, ReplicaLostError) else tries.answered()

    def _go_on(self, asked: Asked, ledger: Ledger, writer: Writer, spans: TrySpans) -> None:
        """Prepares for another replica's stream of the same, where the client has the beginning of one."""
        if not writer.started:
            return
        begun = ledger.began and asked.begin_with(ledger.text)
        ledger.restart(begin=begun)
        spans.resumed = "begin" if begun else "seed"
        self._metrics.resumed.labels(spans.resumed).inc()

    async def _choose(self, asked: Asked, excluded: set[str], writer: Writer, spans: TrySpans) -> Replica:
        """Finds a replica; where none takes requests, waits for one while the client is told that the stream lives."""
        if asked.pinned is not None:
            pinned = self._pool.replicas.get(asked.pinned)
            if pinned is None or pinned.state == "lost":
                raise ApiError(404, "what this refers to was stored by a replica that is lost", code="replica_lost")
            self._pool.take(pinned)
            return pinned
        until = time.monotonic() + self._settings.wait_seconds
        while True:
            self.ready.clear()
            replica = self._pool.choose(asked.digests, excluded, asked.model)
            if replica is not None:
                return replica
            left = until - time.monotonic()
            if left <= 0:
                raise ApiError(503, self._pool.refusal(), code="no_replica", headers={"Retry-After": "5"})
            spans.waits()
            try:
                # An open breaker says nothing when it is time to try it, so this looks again by itself.
                async with asyncio.timeout(min(left, 0.5)):
                    await self.ready.wait()
            except TimeoutError:
                await writer.keep_alive(KEEP_ALIVE_SECONDS)

    async def _ask(
        self, replica: Replica, asked: Asked, ledger: Ledger, writer: Writer, began: float, spans: TrySpans
    ) -> None:
        """Asks one replica, and sends the client what it says.

        Raises:
            FailedError, ReplicaLostError, BadStreamError: the replica failed before the end.
            DivergedError: its stream is not the one that the client has the beginning of.
        """
        tries_breaker = replica.open
        answer = await replica.client.send(asked.method, asked.target, spans.headers, asked.body)
        spans.answered(answer.status)
        try:
            kind = header(answer, b"content-type").partition(";")[0]
            elsewhere = answer.status == 404 and asked.model is not None
            if elsewhere or answer.status in _AGAIN or (writer.started and answer.status != 200):
                raise FailedError(f"HTTP {answer.status}", answer, await answer.read())
            if kind not in (EVENTS, LINES):
                body = await answer.read()
                self._metrics.first.observe(time.monotonic() - began)
                if asked.stores:
                    self._pin(read_data(body), ledger, replica)
                await writer.whole(answer, body)
                return
            try:
                splitter = Splitter(kind)
                async for chunk in answer.chunks():
                    events = splitter.events(chunk)
                    await self._pass_on(events, answer, kind, asked, ledger, writer, replica, began)
                    if tries_breaker and events:  # it answers, and need not have ended for others to ask it
                        self._pool.succeeded(replica)
                        tries_breaker = False
            except ReplicaLostError:
                if not ledger.finished:
                    raise
            if not ledger.finished:
                raise FailedError("the stream stopped before its end")
            await writer.end()
        finally:
            await answer.close()

    async def _pass_on(
        self,
        events: Sequence[StreamEvent],
        answer: Answer,
        kind: str,
        asked: Asked,
        ledger: Ledger,
        writer: Writer,
        replica: Replica,
        began: float,
    ) -> None:
        """Sends the client what it is to have of events that came together."""
        parts: list[bytes] = []
        try:
            for event in events:
                if is_fault(event):
                    raise FailedError("the stream was broken off", event=event)
                parts.append(ledger.take(event))
                if asked.stores and ledger.finished:
                    self._pin(event.data, ledger, replica)
        finally:
            # What the ledger has taken is the client's, whatever came behind it.
            if parts and not writer.started:
                self._metrics.first.observe(time.monotonic() - began)
                await writer.begin(answer, kind)
            if out := b"".join(parts):
                await writer.write(out)

    async def _give_up(self, error: Exception, ledger: Ledger, writer: Writer) -> None:
        """Tells the client what the last replica said, or that it is lost."""
        event = error.event if isinstance(error, FailedError) else None
        if writer.started:
            self._metrics.broken.inc()
            if event is not None and not ledger.began:
                await writer.write(event.raw)
                await writer.end(broken=True)
                return
        elif isinstance(error, FailedError) and error.answer is not None:
            await writer.whole(error.answer, error.body)
            return
        raise ApiError(503, f"a replica was lost: {_describe(error)}", code="replica_lost")

    def _pin(self, data: Any, ledger: Ledger, replica: Replica) -> None:
        """Remembers who stored a response, and under which id."""
        if isinstance(data, dict):
            identity = data.get("response", data).get("id")
            if isinstance(identity, str):
                self._pins.put(ledger.shown(identity), replica.name, identity)


def _describe(error: Exception) -> str:
    return str(error) or type(error).__name__
