"""Streams server-sent events."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from pydantic import BaseModel
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from gesso.server.access_log import Record
from gesso.server.choices import Choices
from gesso.server.errors import ApiError, internal_error

log = logging.getLogger("gesso.server")

DONE = b"data: [DONE]\n\n"
DRAFT_EVENT = "diffusion.draft"
BLOCK_EVENT = "diffusion.block"
KEEP_ALIVE_SECONDS = 10.0
"""Seconds of silence after which a comment tells proxies and clients that the stream lives."""


def data(chunk: BaseModel, event: str | None = None) -> bytes:
    """Encodes a chunk as one event. ASCII only: some clients break lines at characters that are no line ends here."""
    name = f"event: {event}\n" if event else ""
    return f"{name}data: {chunk.model_dump_json(exclude_unset=True, ensure_ascii=True)}\n\n".encode()


def event(name: str, fields: Mapping[str, Any]) -> bytes:
    """Encodes a named event, ASCII only as in `data`."""
    return f"event: {name}\ndata: {json.dumps(fields)}\n\n".encode()


def comment(text: str) -> bytes:
    """Encodes a comment, which every client skips."""
    return f": {text}\n\n".encode()


class EventStream(Response):
    """Streams chunks as server-sent events. The choices are cancelled when the client disconnects."""

    def __init__(
        self,
        choices: Choices,
        chunks: AsyncIterator[bytes],
        *,
        failure: Callable[["ApiError"], bytes] | None = None,
        last: bytes = DONE,
        media_type: str = "text/event-stream",
    ) -> None:
        """
        Args:
            failure: how the interface tells of an error inside a stream.
            last: what every stream ends with.
        """
        super().__init__(headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}, media_type=media_type)
        del self.headers["content-length"]
        self._choices = choices
        self._chunks = chunks
        self._failure = failure or _error
        self._last = last

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        callback = asyncio.create_task(self._choices.watch(receive))
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            async for chunk in self._to_the_end(scope["state"]["record"]):
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            callback.cancel()
            self._choices.cancel()

    async def _to_the_end(self, record: Record) -> AsyncIterator[bytes]:
        """The chunks; where they break off, the error as the last one."""
        try:
            async for chunk in self._chunks:
                yield chunk
        except ApiError as error:
            record.outcome = "client_disconnected" if record.outcome == "client_disconnected" else "error"
            yield self._failure(error)
        except Exception:
            log.exception("%s crashed", record.request_id)
            record.outcome = "error"
            yield self._failure(internal_error(record.request_id))
        if self._last:
            yield self._last


def _error(error: ApiError) -> bytes:
    return f"data: {json.dumps(error.body)}\n\n".encode()
