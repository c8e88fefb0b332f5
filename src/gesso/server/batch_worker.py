"""Works off the batches of a store, one after the other, oldest first.

Life cycle of a batch: `validating` (the input is read once), `in_progress` (its lines are asked, and every answer is on
the disk before it counts), `finalizing` (the journals become files), `completed`. A bad input ends it as `failed`;
`cancel` and the end of its window end it with what is answered by then. A process that ends in between leaves all that
in the store, and the next one goes on: no line is asked again that has an answer.
"""

import asyncio
import contextlib
import errno
import json
import logging
import sqlite3
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Literal

from anyio import to_thread

from gesso.batch.ask import Asker, ServerGoneError
from gesso.batch.journal import Journal, is_error
from gesso.batch.lines import BatchRequest, Scan, error_line, requests_of, scan
from gesso.batch.run import run_batch
from gesso.server.batch_models import Batch, BatchError, BatchErrors, RequestCounts
from gesso.server.batch_store import BatchStore
from gesso.whole_file import link_or_copy

log = logging.getLogger("gesso.server")

REST_SECONDS = 60.0
"""Seconds after which the worker looks again: for files whose time is over, and after a server that refused."""
EXPIRED_TOGETHER = 4096
"""Lines that are written at once behind the end of a window."""
_End = Literal["completed", "cancelled", "expired"]
_PASSING = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EROFS}
"""Errors of the system that are no fault of the batch, and may be over later."""


class BatchWorker:
    """Answers batches within one event loop.

    Args:
        ask: asks this same application.
        endpoints: what batches may ask for.
        workers: lines under way at once.
    """

    def __init__(self, store: BatchStore, ask: Asker, endpoints: frozenset[str], workers: int) -> None:
        self.store = store
        self.endpoints = endpoints
        self._ask, self._workers = ask, workers
        self._wake = asyncio.Event()
        self._running: Batch | None = None
        self._unwanted: set[str] = set()
        """Ids of batches that were cancelled, perhaps while the worker was taking them up."""
        self._task: asyncio.Task[None] | None = None
        """Task that asks the lines of the batch that is running."""
        self._journals: tuple[Journal, Journal] | None = None
        self._waiting: Batch | None = None
        """The batch that was broken off last, with its counts: a full disk takes no document that has them."""

    def wake(self) -> None:
        """Tells that there is a new batch."""
        self._wake.set()

    def shown(self, batch: Batch) -> Batch:
        """Returns a batch with its counts as they are now."""
        running = self._running is not None and self._running.id == batch.id
        waits = self._waiting is not None and self._waiting.id == batch.id and not batch.over
        if running and self._journals is not None:
            batch.request_counts = self._counts(batch.request_counts.total)
        elif waits and self._waiting is not None:
            batch.request_counts = self._waiting.request_counts
        return batch

    async def cancel(self, identity: str) -> Batch:
        """Ends a batch; one that is over stays as it is.

        Raises:
            ApiError: there is none of this id.
        """
        if (running := self._taken(identity)) is not None:
            return await self._cancel_running(running)
        # Before anything is awaited: in the meantime the worker may take it up.
        self._unwanted.add(identity)
        try:
            batch = await to_thread.run_sync(self.store.batch, identity)
        except BaseException:
            self._unwanted.discard(identity)
            raise
        if batch.over:
            self._unwanted.discard(identity)
            return batch
        if (running := self._taken(identity)) is not None:
            return await self._cancel_running(running)
        if batch.status != "cancelling":
            batch.status, batch.cancelling_at = "cancelling", self.store.now()
            await to_thread.run_sync(self.store.put_batch, batch)
        self.wake()
        return batch

    def _taken(self, identity: str) -> Batch | None:
        """The batch that the worker is at, if it is this one."""
        return self._running if self._running is not None and self._running.id == identity else None

    async def _cancel_running(self, batch: Batch) -> Batch:
        if batch.status not in ("finalizing", "cancelling"):
            batch.status, batch.cancelling_at = "cancelling", self.store.now()
            await to_thread.run_sync(self.store.put_batch, batch)
            if self._task is not None:
                self._task.cancel()
        return self.shown(batch.model_copy())

    async def run(self) -> None:
        """Works until it is cancelled.

        What a batch raises in the moment of the cancellation takes its place: only the task knows of it then.
        """
        task = asyncio.current_task()
        assert task is not None
        while not task.cancelling():
            self._wake.clear()
            try:
                await to_thread.run_sync(self.store.sweep)
                batch = await to_thread.run_sync(self.store.next_batch)
                goes_on = batch is not None and await self._try(batch)
            except Exception:
                # The store's own, most likely; whatever it is, batches to come are not to wait for ever.
                log.exception("the worker of the batches failed, and looks again in %.0f seconds", REST_SECONDS)
                goes_on = False
            if not goes_on and not task.cancelling():
                await self._rest()

    async def _try(self, batch: Batch) -> bool:
        """Works a batch off; False where the server refuses everything or the disk is full, and the batch waits."""
        try:
            self._running = batch
            if batch.id in self._unwanted and batch.status not in ("finalizing", "cancelling"):
                batch.status, batch.cancelling_at = "cancelling", self.store.now()
            await self._work(batch)
        except ServerGoneError as error:
            log.warning("batch %s waits: %s", batch.id, error)
            return False
        except Exception as error:
            if isinstance(error, sqlite3.OperationalError) or (isinstance(error, OSError) and error.errno in _PASSING):
                log.warning("batch %s waits: %s", batch.id, error)
                return False
            log.exception("batch %s crashed", batch.id)
            await self._fail(batch, [BatchError(code="internal_error", message=f"{type(error).__name__}: {error}")])
        finally:
            self._running = None
            self._unwanted.discard(batch.id)
        return True

    async def _rest(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(REST_SECONDS):
                await self._wake.wait()

    async def _work(self, batch: Batch) -> None:
        file = await to_thread.run_sync(self.store.file, batch.input_file_id)
        path = self.store.path(file)
        scanned = await to_thread.run_sync(scan, path, batch.endpoint)
        if batch.status == "validating":
            if wrong := self._faults(scanned):
                await self._fail(batch, wrong)
                return
            batch.status, batch.in_progress_at = "in_progress", self.store.now()
        batch.request_counts.total = scanned.lines
        await to_thread.run_sync(self.store.put_batch, batch)
        facts = {"input": scanned.sha256}
        with (
            Journal(self.store.work_path(batch, "output"), facts) as output,
            Journal(self.store.work_path(batch, "errors"), facts) as errors,
        ):
            self._journals = (output, errors)
            try:
                done = output.done | errors.done
                left = requests_of(path, batch.endpoint, lambda number: scanned.identity(number) in done)
                await self._finish(batch, await self._answer(batch, scanned, left))
            finally:
                batch.request_counts = self._counts(scanned.lines)
                self._journals, self._waiting = None, batch
        for kind in ("output", "errors"):
            work = self.store.work_path(batch, kind)
            for rest in (work, work.with_name(f"{work.name}.batch")):
                rest.unlink(missing_ok=True)

    def _faults(self, scanned: Scan) -> list[BatchError]:
        """What keeps a whole batch from beginning; a bad line is none, it has an error of its own."""
        if scanned.lines > self.store.limits.lines:
            most = self.store.limits.lines
            return [BatchError(code="too_many_lines", message=f"{scanned.lines} lines, and at most {most} are taken")]
        if not scanned.lines:
            return [BatchError(code="empty_file", message="the input has no lines")]
        if (twice := scanned.duplicate) is not None:
            message = f"custom_id {twice.custom_id!r} stands on line {twice.first} and on line {twice.again}"
            return [BatchError(code="duplicate_custom_id", message=message, param="custom_id", line=twice.again)]
        return []

    async def _answer(self, batch: Batch, scanned: Scan, left: Iterator[BatchRequest]) -> _End:
        """Asks the lines that are left, until there are none, the batch is cancelled, or its window ends."""
        if batch.status == "cancelling":
            return "cancelled"
        seconds = batch.expires_at - self.store.clock()
        if seconds > 0 and batch.status == "in_progress":
            self._task = asyncio.ensure_future(
                run_batch(left, scanned.identity, self._ask, self._append, self._workers)
            )
            try:
                async with asyncio.timeout(seconds):
                    await self._task
            except TimeoutError:
                pass
            except asyncio.CancelledError:
                if self._cancelled(batch):
                    return "cancelled"
                raise
            finally:
                self._task = None
        assert self._journals is not None
        output, errors = self._journals
        if len(output.done) + len(errors.done) == scanned.lines:
            return "completed"
        await to_thread.run_sync(self._expire, batch, scanned, output.done | errors.done)
        return "expired"

    def _expire(self, batch: Batch, scanned: Scan, done: set[str]) -> None:
        """Writes an error for every line that has no answer."""
        assert self._journals is not None
        message = f"the batch's window of {batch.completion_window} ended before this line was answered"
        path = self.store.path(self.store.file(batch.input_file_id))
        expired = (
            error_line(scanned.identity(request.number), request, "batch_expired", message)
            for request in requests_of(path, batch.endpoint, lambda number: scanned.identity(number) in done)
        )
        while group := list(islice(expired, EXPIRED_TOGETHER)):
            self._journals[1].append(group)

    def _cancelled(self, batch: Batch) -> bool:
        """Whether it was the batch that was cancelled, and not the worker."""
        current = asyncio.current_task()
        return batch.status == "cancelling" and (current is None or not current.cancelling())

    def _append(self, lines: Sequence[str]) -> None:
        """Writes each line to where it belongs."""
        assert self._journals is not None
        parted: tuple[list[str], list[str]] = ([], [])
        for line in lines:
            parted[is_error(_parsed(line))].append(line)
        for journal, part in zip(self._journals, parted, strict=True):
            if part:
                journal.append(part)

    def _counts(self, total: int) -> RequestCounts:
        journals = self._journals
        if journals is None:
            return RequestCounts(total=total)
        return RequestCounts(total=total, completed=len(journals[0].done), failed=len(journals[1].done))

    async def _finish(self, batch: Batch, end: _End) -> None:
        assert self._journals is not None
        now = self.store.now()
        batch.request_counts = self._counts(batch.request_counts.total)
        if end == "completed":
            batch.status, batch.finalizing_at = "finalizing", batch.finalizing_at or now
            await to_thread.run_sync(self.store.put_batch, batch)
        output, errors = self._journals
        if output.done:
            batch.output_file_id = await to_thread.run_sync(self._publish, batch, output, "output")
        if errors.done:
            batch.error_file_id = await to_thread.run_sync(self._publish, batch, errors, "error")
        batch.status = end
        setattr(batch, f"{end}_at", self.store.now())
        await to_thread.run_sync(self.store.put_batch, batch)

    def _publish(self, batch: Batch, journal: Journal, kind: str) -> str:
        """Makes a file of a journal; one that a killed process made before is found by nobody and expires."""
        path = self.store.new_path()
        link_or_copy(journal.path, path)
        after = batch.output_expires_after
        seconds = self.store.limits.keep_seconds if after is None else after.seconds
        return self.store.add_file(path, f"{batch.id}_{kind}.jsonl", "batch_output", seconds).id

    async def _fail(self, batch: Batch, wrong: list[BatchError]) -> None:
        batch.status, batch.failed_at, batch.errors = "failed", self.store.now(), BatchErrors(data=wrong)
        await to_thread.run_sync(self.store.put_batch, batch)


def _parsed(line: str) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(line)
    return parsed
