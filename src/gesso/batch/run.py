"""Runs a batch: workers that ask, and one writer of what they are told."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from gesso.batch.lines import Answer, BatchRequest, answer_line, error_line

Ask = Callable[[BatchRequest], Awaitable[Answer]]


async def run_batch(
    requests: Iterable[BatchRequest],
    identity: Callable[[int], str],
    ask: Ask,
    write: Callable[[Sequence[str]], None],
    workers: int,
) -> None:
    """Answers requests, so many at a time, and writes each answer once it is there.

    Lines that are finished while others are brought to the disk go together next. Whatever ends the run, a cancellation
    too, what is answered is written before.

    Args:
        identity: the id of the answer to a line, by its number.
        write: appends lines and returns when they are safe; is called from one thread at a time.

    Raises:
        BaseException: what a worker or the writer raised, the first one.
    """
    left = iter(requests)
    answered: asyncio.Queue[str] = asyncio.Queue()
    room = asyncio.Semaphore(4 * workers)
    """Answers that may wait for the disk; a worker that has asked never waits to put its own."""
    reading = asyncio.Lock()

    async def following() -> BatchRequest | None:
        async with reading:  # which a file may take its time for
            ahead = asyncio.ensure_future(asyncio.to_thread(next, left, None))
            try:
                return await asyncio.shield(ahead)
            except asyncio.CancelledError:
                await ahead
                raise

    async def work() -> None:
        while True:
            await room.acquire()
            if (request := await following()) is None:
                return
            if request.problem is not None:
                line = error_line(identity(request.number), request, request.problem.code, request.problem.message)
            else:
                line = answer_line(identity(request.number), request, await ask(request))
            answered.put_nowait(line)

    async def collect() -> None:
        while True:
            group = [await answered.get()]
            group += _waiting(answered)
            # A cancellation waits for the disk: nobody else may write meanwhile.
            writing = asyncio.ensure_future(asyncio.to_thread(write, group))
            try:
                await asyncio.shield(writing)
            except asyncio.CancelledError:
                await writing
                raise
            for _ in group:
                room.release()

    tasks = [asyncio.create_task(work()) for _ in range(workers)]
    writer = asyncio.create_task(collect())
    asked: asyncio.Future[list[None]] = asyncio.gather(*tasks)
    try:
        ends: list[asyncio.Future[Any]] = [asked, writer]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if asked.done():
            asked.result()
    finally:
        asked.cancel()
        for task in (writer, *tasks):
            task.cancel()
        await asyncio.gather(asked, writer, *tasks, return_exceptions=True)
        if not writer.cancelled():
            writer.result()  # the disk's error, which may have come last
        if rest := _waiting(answered):
            await asyncio.to_thread(write, rest)


def _waiting(queue: asyncio.Queue[str]) -> list[str]:
    return [queue.get_nowait() for _ in range(queue.qsize())]
