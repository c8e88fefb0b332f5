"""Clients that go: their requests end at once. Against a real socket, with the fake service."""

import json
import socket
import time
from typing import Any
from urllib.parse import urlsplit

import pytest

from gesso.server import choices as choices_module
from server.conftest import chat_body, eventually, running
from server.fake import FakeService, frame


def send(url: str, **asked: Any) -> socket.socket:
    """A connection on which a chat request was sent."""
    parts = urlsplit(url)
    body = json.dumps(chat_body(**asked)).encode()
    connection = socket.create_connection((parts.hostname, parts.port or 80), timeout=10)
    fields = ("Host: x", "Content-Type: application/json", f"Content-Length: {len(body)}")
    head = "\r\n".join(("POST /v1/chat/completions HTTP/1.1", *fields))
    connection.sendall(f"{head}\r\n\r\n".encode() + body)
    return connection


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("number", [1, 3])
def test_a_client_that_hangs_up_cancels_its_choices(stream: bool, number: int) -> None:
    service = FakeService()
    service.events = []
    with running(service) as url:
        connection = send(url, stream=stream, n=number)
        assert eventually(lambda: len(service.tickets) == number)
        connection.close()
        assert eventually(lambda: all(ticket.cancelled.is_set() for ticket in service.tickets))


def test_a_client_that_hangs_up_in_the_middle_of_a_stream(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "gesso.access")
    service = FakeService()
    service.events = service.events[:1]
    with running(service) as url:
        connection = send(url, stream=True)
        received = b""
        while b"Hello" not in received:
            part = connection.recv(4096)
            assert part, "the server closed the stream"
            received += part
        connection.close()
        assert eventually(service.tickets[0].cancelled.is_set)
        assert eventually(lambda: '"outcome": "client_disconnected"' in caplog.text)


def test_a_request_that_is_given_up_while_it_is_submitted() -> None:
    service = FakeService()
    service.events = []
    with running(service) as url:
        for _ in range(10):
            send(url).close()
        assert eventually(lambda: len(service.tickets) == 10)
        assert eventually(lambda: all(ticket.cancelled.is_set() for ticket in service.tickets))


def test_a_client_that_does_not_read_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames pile up neither in the queue nor before the engine's thread."""
    seen: list[choices_module.Choices] = []
    create = choices_module.Choices.__init__

    def spy(self: choices_module.Choices, *arguments: Any) -> None:
        seen.append(self)
        create(self, *arguments)

    monkeypatch.setattr(choices_module.Choices, "__init__", spy)
    service = FakeService()
    service.events = []
    with running(service) as url:
        connection = send(url, stream=True, diffusion={"draft_frames": True})
        assert service.submitted.wait(10)
        step = 0
        while len(seen[0]._queue) < choices_module.MAX_FRAMES and step < 5000:
            service.tickets[0].send(frame(step, width=4000))
            step += 1
            time.sleep(0.001)  # so that the server sends as much as it can
        for extra in range(100):
            service.tickets[0].send(frame(step + extra))
        assert eventually(lambda: seen[0]._queue[-1][1].step == step + 99)
        assert len(seen[0]._queue) == choices_module.MAX_FRAMES
        connection.close()
        assert eventually(service.tickets[0].cancelled.is_set)


def test_a_client_that_leaves_while_its_constraint_is_compiled() -> None:
    service = FakeService()
    service.compiles = True
    with running(service) as url:
        connections = [send(url, stream=stream, n=2) for stream in (False, True)]
        assert eventually(lambda: len(service.prepared) == 4)
        for connection in connections:
            connection.close()
        assert eventually(lambda: all(prepared.cancelled.is_set() for prepared in service.prepared))
        assert service.requests == []
