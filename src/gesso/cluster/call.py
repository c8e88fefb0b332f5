"""Carries one HTTP request to an application in another process, and its answer back, as plain values."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from starlette.types import ASGIApp

Part = tuple[int, list[tuple[bytes, bytes]]] | bytes
"""First the status and the headers of an answer, then its body piece by piece."""


@dataclass(frozen=True, slots=True)
class Call:
    """Holds a request."""

    method: str
    target: str
    """Path and query."""
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes


async def answer(app: ASGIApp, call: Call) -> AsyncIterator[Part]:
    """Runs an application on a request and yields what it says; closing it early is the client that disconnects.

    Raises:
        RuntimeError: the application ended before its answer did.
    """
    messages: asyncio.Queue[Any] = asyncio.Queue()
    gone = asyncio.Event()
    given = iter([{"type": "http.request", "body": call.body, "more_body": False}])

    async def receive() -> Any:
        for message in given:
            return message
        await gone.wait()
        return {"type": "http.disconnect"}

    task = asyncio.ensure_future(app(_scope(call), receive, messages.put))
    task.add_done_callback(lambda _: messages.put_nowait({"type": "ended"}))
    try:
        while True:
            message = await messages.get()
            if message["type"] == "http.response.start":
                yield message["status"], [(name.lower(), value) for name, value in message["headers"]]
            elif message["type"] == "http.response.body":
                if message.get("body"):
                    yield message["body"]
                if not message.get("more_body"):
                    return
            elif message["type"] == "ended":
                raise RuntimeError("the application ended before its answer did")
    finally:
        gone.set()
        await asyncio.gather(task, return_exceptions=True)


def _scope(call: Call) -> dict[str, Any]:
    path, _, query = call.target.partition("?")
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": call.method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode("latin-1"),
        "query_string": query.encode("latin-1"),
        "root_path": "",
        "headers": [(b"host", b"replica"), (b"content-length", b"%d" % len(call.body)), *call.headers],
        "server": ("replica", 80),
        "client": ("127.0.0.1", 1),
    }
