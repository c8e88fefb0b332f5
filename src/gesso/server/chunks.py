"""Streams a completion, of a chat or of a text, as chunks of its answer."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any

from pydantic import BaseModel

from gesso.engine.events import BlockCommitted, DenoisingFrame, Event
from gesso.engine.result import GenerationResult
from gesso.server.answers import Usage
from gesso.server.choices import Choices
from gesso.server.report import block, frame_report
from gesso.server.requests import Sampling, wants_drafts
from gesso.server.stream import BLOCK_EVENT, DRAFT_EVENT, KEEP_ALIVE_SECONDS, comment, data


async def completion_chunks(
    body: Sampling,
    choices: Choices,
    chunk: Callable[..., BaseModel],
    nothing: Callable[..., BaseModel],
    added: Callable[[int, Event], Iterable[BaseModel]],
    counted: Callable[[Sequence[GenerationResult]], Awaitable[Usage]],
    opening: Iterable[BaseModel] = (),
) -> AsyncIterator[bytes]:
    """Yields a chunk for each of `opening`, then what the events of all choices add, then usage where it is wanted.

    Args:
        chunk: makes a chunk of its `choices` and of further fields.
        nothing: makes a choice, by its `index`, to which nothing is added.
        added: makes choices of what an event adds to that of this number.
    """
    wants_usage = body.stream_options is not None and bool(body.stream_options.include_usage)
    no_usage: dict[str, Any] = {"usage": None} if wants_usage else {}
    for choice in opening:
        yield data(chunk(choices=[choice], **no_usage))
    async for item in choices.events(KEEP_ALIVE_SECONDS):
        if item is None:
            yield comment(f"{choices.position} requests wait before this one")
            continue
        number, event = item
        if isinstance(event, DenoisingFrame):
            yield data(chunk(choices=[nothing(index=number)], **no_usage, draft=frame_report(event)), DRAFT_EVENT)
        elif isinstance(event, BlockCommitted) and wants_drafts(body.diffusion):
            yield data(chunk(choices=[nothing(index=number)], **no_usage, block=block(event)), BLOCK_EVENT)
        for choice in added(number, event):
            yield data(chunk(choices=[choice], **no_usage))
    if wants_usage:
        results = [choices.results[number] for number in range(len(choices.handles))]
        yield data(chunk(choices=[], usage=await counted(results)))
