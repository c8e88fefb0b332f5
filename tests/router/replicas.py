"""Replicas in this process that die where a test says so, and a client that asks a router before them."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any, TypeVar

import httpx

from gesso.router.app import Router
from gesso.router.settings import RouterSettings
from gesso.server.app import create_app
from gesso.server.settings import Settings

T = TypeVar("T")
RUNNERS: list[asyncio.Runner] = []


def run(asking: Coroutine[Any, Any, T]) -> T:
    """Runs it in the loop that all tests of routers share, as the events of a router are of one loop."""
    return RUNNERS[0].run(asking)


class Dying(httpx.AsyncBaseTransport):
    """Connects to an application, and dies behind so many parts of an answer.

    Args:
        deaths: for each request, the parts that come before the connection breaks; None, or nothing left: it holds.
    """

    def __init__(self, app: Any, deaths: Sequence[int | None] = ()) -> None:
        self.app = app
        self.deaths = list(deaths)
        self.refusing = False
        self.bodies: list[dict[str, Any]] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self.refusing:
            raise httpx.ConnectError("refused", request=request)
        body = await request.aread()
        if request.method == "POST":
            with contextlib.suppress(ValueError):
                self.bodies.append(json.loads(body))
        death = self.deaths.pop(0) if self.deaths and request.method == "POST" else None
        messages: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        closed = asyncio.Event()
        given = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def receive() -> dict[str, Any]:
            for message in given:
                return message
            await closed.wait()
            return {"type": "http.disconnect"}

        scope = {
            "type": "http",
            "method": request.method,
            "path": request.url.path,
            "raw_path": request.url.raw_path.partition(b"?")[0],
            "query_string": request.url.query,
            "headers": [(name.lower(), value) for name, value in request.headers.raw],
            "http_version": "1.1",
            "scheme": "http",
            "server": ("replica", 80),
            "client": ("127.0.0.1", 1),
        }
        task = asyncio.create_task(self.app(scope, receive, messages.put))
        if death == 0:
            closed.set()
            await task
            raise httpx.ReadError("reset", request=request)
        start = await messages.get()
        return httpx.Response(start["status"], headers=start["headers"], stream=_Parts(messages, death, closed, task))


class _Parts(httpx.AsyncByteStream):
    def __init__(self, messages: Any, death: int | None, closed: asyncio.Event, task: Any) -> None:
        self._messages, self._death, self._closed, self._task = messages, death, closed, task

    async def __aiter__(self) -> AsyncIterator[bytes]:
        parts = 0
        while True:
            if parts == self._death:
                raise httpx.ReadError("reset")
            message = await self._messages.get()
            if message.get("body"):
                parts += 1
                # Cut anywhere: events are put together again.
                yield message["body"][:7]
                yield message["body"][7:]
            if not message.get("more_body"):
                return

    async def aclose(self) -> None:
        self._closed.set()
        await self._task


def server(service: Any, **settings: Any) -> Any:
    """A gesso server's application."""
    return create_app(service, Settings(served_model_name="mini", **settings))


class Fleet:
    """A router before replicas, called `http://0`, `http://1` and so on."""

    def __init__(self, *replicas: Dying, up: bool = True, **settings: Any) -> None:
        self.replicas = {f"http://{number}": replica for number, replica in enumerate(replicas)}
        given = {"wait_seconds": 5.0, "retries": 3, **settings}
        make: Callable[[str], Dying] = self.replicas.__getitem__
        self.router = Router(RouterSettings(replicas=tuple(self.replicas), **given), transport=make)
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
