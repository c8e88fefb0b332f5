"""Writes an answer to the client: whole, or as a stream that has begun and has to end well."""

import json
import time

from starlette.types import Send

from gesso.router.client import Answer
from gesso.router.events import EVENTS
from gesso.server.errors import ApiError, error_body

_HOPS = {
    b"connection", b"keep-alive", b"transfer-encoding", b"content-length", b"x-request-id", b"date", b"server",
    b"trailer", b"upgrade",
}  # fmt: skip


class Writer:
    """Sends one answer.

    Args:
        path: of the request, whose interface has a shape of errors.
    """

    def __init__(self, path: str, send: Send) -> None:
        self.path, self._send = path, send
        self.started = False
        """Whether the client has a part of the answer."""
        self._kind = ""
        self._written = 0.0

    async def whole(self, answer: Answer, body: bytes) -> None:
        """Sends an answer as a replica gave it."""
        headers = [*_headers(answer), (b"content-length", str(len(body)).encode())]
        await self._send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})

    async def begin(self, answer: Answer, kind: str) -> None:
        """Begins a stream."""
        self.started, self._kind, self._written = True, kind, time.monotonic()
        await self._send({"type": "http.response.start", "status": 200, "headers": _headers(answer)})

    async def write(self, part: bytes) -> None:
        """Sends a part of a stream."""
        self._written = time.monotonic()
        await self._send({"type": "http.response.body", "body": part, "more_body": True})

    async def keep_alive(self, seconds: float) -> None:
        """Says that the stream lives, where nothing was said for so long."""
        if self.started and self._kind == EVENTS and time.monotonic() - self._written >= seconds:
            await self.write(b": another replica is asked\n\n")

    async def end(self, broken: bool = False) -> None:
        """Ends a stream."""
        if broken and self._is_openai:
            await self.write(b"data: [DONE]\n\n")
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def fail(self, error: ApiError) -> None:
        """Sends an error in the shape of the interface: as the whole answer, or as the last event of a stream."""
        if not self.started:
            headers = [(name.lower().encode(), value.encode()) for name, value in (error.headers or {}).items()]
            body = json.dumps(error_body(error, self.path)).encode()
            headers += [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
            await self._send({"type": "http.response.start", "status": error.status_code, "headers": headers})
            await self._send({"type": "http.response.body", "body": body})
            return
        text = json.dumps(error_body(error, self.path)).encode()
        if self._kind != EVENTS:
            await self.write(text + b"\n")
        elif self._is_openai:
            await self.write(b"data: " + text + b"\n\n")
        else:
            await self.write(b"event: error\ndata: " + text + b"\n\n")
        await self.end(broken=True)

    @property
    def _is_openai(self) -> bool:
        return self._kind == EVENTS and not self.path.startswith(("/v1/messages", "/v1/responses"))


def _headers(answer: Answer) -> list[tuple[bytes, bytes]]:
    return [pair for pair in answer.headers if pair[0] not in _HOPS]
