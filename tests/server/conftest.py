import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
import uvicorn
from starlette.testclient import TestClient

from gesso.api import load
from gesso.engine.async_engine import AsyncEngine, Limits
from gesso.server.app import create_app
from gesso.server.run import Server, address, listen
from gesso.server.settings import Settings
from server.fake import FakeService

Post = Callable[..., Any]


@pytest.fixture
def service() -> FakeService:
    return FakeService()


@pytest.fixture
def client(service: FakeService) -> TestClient:
    return make_client(service)


def make_client(service: FakeService, **settings: Any) -> TestClient:
    return TestClient(create_app(service, Settings(served_model_name="mini", **settings)))


def chat_body(**fields: Any) -> dict[str, Any]:
    return {"model": "mini", "messages": [{"role": "user", "content": "Hi"}], **fields}


def ask(client: TestClient, **fields: Any) -> dict[str, Any]:
    """A whole chat answer that must be there."""
    response = client.post("/v1/chat/completions", json=chat_body(**fields))
    assert response.status_code == 200, response.text
    return dict(response.json())


def refusal(client: TestClient, path: str = "/v1/chat/completions", status: int = 400, **fields: Any) -> dict[str, Any]:
    """The error of a request that must be refused."""
    body = chat_body(**fields) if path == "/v1/chat/completions" else fields
    response = client.post(path, json=body)
    assert response.status_code == status, response.text
    assert set(response.json()) == {"error"}
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return dict(error)


def parse_events(text: str) -> list[tuple[str | None, str]]:
    """Server-sent events as (name, data); comments are left out."""
    events = []
    for part in text.split("\n\n"):
        lines = [line for line in part.split("\n") if line and not line.startswith(":")]
        fields = dict(line.split(": ", 1) for line in lines)
        if fields:
            events.append((fields.get("event"), fields["data"]))
    return events


def stream(client: TestClient, path: str = "/v1/chat/completions", **fields: Any) -> list[tuple[str | None, Any]]:
    """The events of a stream, parsed; `[DONE]` must be the last one and is cut off."""
    body = chat_body(**fields) if path == "/v1/chat/completions" else fields
    response = client.post(path, json={**body, "stream": True})
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("text/event-stream")
    events = parse_events(response.text)
    assert events.pop() == (None, "[DONE]")
    return [(name, json.loads(data)) for name, data in events]


def chunks(client: TestClient, path: str = "/v1/chat/completions", **fields: Any) -> list[dict[str, Any]]:
    """The standard chunks of a stream."""
    return [data for name, data in stream(client, path, **fields) if name is None]


SECONDS = 120
"""In which a server has to end."""


@contextmanager
def running(service: Any, **settings: Any) -> Iterator[str]:
    """The server on a free port of the loopback, in a thread; yields its address."""
    given = Settings(**{"served_model_name": "mini", "drain_seconds": 0.0, **settings})
    with listen("127.0.0.1", 0) as listener:
        service.start()
        app = create_app(service, given)
        server = Server(app, app.state.context, given)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield address(listener)
        finally:
            server.stop()
            thread.join(SECONDS)
            assert not thread.is_alive(), "the server does not end"


@contextmanager
def plain_server(app: Any) -> Iterator[str]:
    """Any ASGI application on a free port of the loopback; yields its address."""
    with listen("127.0.0.1", 0) as listener:
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off", ws="none"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield address(listener)
        finally:
            server.should_exit = True
            thread.join(SECONDS)
            assert not thread.is_alive(), "the server does not end"


@pytest.fixture(scope="session")
def mini_url() -> Iterator[str]:
    """The bundled model behind a real server."""
    torch.set_num_threads(1)
    with running(AsyncEngine(load("mini", "cpu", offline=True), Limits())) as url:
        yield url


def eventually(condition: Callable[[], bool], seconds: float = 60.0) -> bool:
    """Whether it becomes true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
