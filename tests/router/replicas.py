"""Replicas in this process that die where a test says so, and a client that asks a router before them."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any, TypeVar
from urllib.parse import unquote

import httpx

from gesso.router.app import Router
from gesso.router.client import Answer, Headers, NotListeningError, ReplicaLostError
from gesso.router.settings import RouterSettings
from gesso.server.app import create_app
from gesso.server.settings import Settings

T = TypeVar("T")
RUNNERS: list[asyncio.Runner] = []
SECONDS = 120
"""In which whatever a test plays has to come to its end."""


def run(asking: Coroutine[Any, Any, T]) -> T:
    """Runs it in the loop that all tests of routers share, as the events of a router are of one loop."""

    async def bounded() -> T:
        async with asyncio.timeout(SECONDS):
            return await asking

    return RUNNERS[0].run(bounded())


class Dying:
    """Connects to an application, and dies behind so many parts of an answer.

    Args:
        deaths: for each request, the parts that come before the connection breaks; None, or nothing left: it holds.
    """

    def __init__(self, app: Any, deaths: Sequence[int | None] = ()) -> None:
        self.app = app
        self.deaths = list(deaths)
        self.refusing = False
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[Headers] = []

    async def send(self, method: str, target: str, headers: Headers = (), body: bytes = b"") -> Answer:
        if self.refusing:
            raise NotListeningError("refused")
        self.headers.append(headers)
        if method == "POST":
            with contextlib.suppress(ValueError):
                self.bodies.append(json.loads(body))
        death = self.deaths.pop(0) if self.deaths and method == "POST" else None
        messages: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        closed = asyncio.Event()
        given = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def receive() -> dict[str, Any]:
            for message in given:
                return message
            await closed.wait()
            return {"type": "http.disconnect"}

        path, _, query = target.partition("?")
        scope = {
            "type": "http",
            "method": method,
            "path": unquote(path),
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [(b"host", b"replica"), *headers],
            "http_version": "1.1",
            "scheme": "http",
            "server": ("replica", 80),
            "client": ("127.0.0.1", 1),
        }
        task = asyncio.create_task(self.app(scope, receive, messages.put))
        if death == 0:
            closed.set()
            await task
            raise ReplicaLostError("reset")
        try:
            start = await messages.get()
        except asyncio.CancelledError:
            closed.set()
            await task  # the server has heard of it then, whatever it was at
            raise
        return _Parts(start, messages, death, closed, task)

    async def close(self) -> None:
        """What is under way goes on: tests say themselves where it breaks."""


class _Parts:
    def __init__(self, start: Any, messages: Any, death: int | None, closed: asyncio.Event, task: Any) -> None:
        self.status: int = start["status"]
        self.headers: Headers = start["headers"]
        self._messages, self._death, self._closed, self._task = messages, death, closed, task

    async def chunks(self) -> AsyncIterator[bytes]:
        parts = 0
        while True:
            if parts == self._death:
                raise ReplicaLostError("reset")
            message = await self._messages.get()
            if message.get("body"):
                parts += 1
                # Cut anywhere: events are put together again.
                yield message["body"][:7]
                yield message["body"][7:]
            if not message.get("more_body"):
                return

    async def read(self) -> bytes:
        return b"".join([part async for part in self.chunks()])

    async def close(self) -> None:
        self._closed.set()
        await self._task


def server(service: Any, **settings: Any) -> Any:
    """A gesso server's application."""
    return create_app(service, Settings(served_model_name="mini", **settings))


class Fleet:
    """A router before replicas, called `http://0`, `http://1` and so on."""

    def __init__(self, *replicas: Dying, up: bool = True, **settings: Any) -> None:
        self.replicas = {f"http://{number}": replica for number, replica in enumerate(replicas)}
        given = {"wait_seconds": 5.0, "retries": 3, "retry_seconds": 0.0, **settings}
        make: Callable[[str], Dying] = self.replicas.__getitem__
        self.router = Router(RouterSettings(replicas=tuple(self.replicas), **given), connect=make)
        for replica in self.router.pool.replicas.values():
            replica.state = "up" if up else "lost"

    async def ask(self, path: str, body: Any = None, method: str = "POST", **options: Any) -> httpx.Response:
        transport = httpx.ASGITransport(self.router.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            given = {} if body is None else {"json": body}
            return await client.request(method, path, **given, **options)

    def __call__(self, path: str, body: Any = None, method: str = "POST", **options: Any) -> httpx.Response:
        return run(self.ask(path, body, method, **options))

    def metric(self, name: str) -> float:
        lines = self.router.metrics.text().decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(f"gesso_router_{name}"))
