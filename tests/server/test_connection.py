"""Connections that ask too much or too little, against a real socket."""

import json
import socket
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from starlette.testclient import TestClient

from gesso.cli.serve import host_names
from gesso.errors import OptionError
from gesso.server.app import create_app
from gesso.server.connection import ConnectionLimits
from gesso.server.hosts import host_name
from gesso.server.settings import Settings
from server.conftest import chat_body, running
from server.fake import FakeService

HASTY = ConnectionLimits(head_seconds=0.2, body_seconds=0.3, pause_seconds=0.2)
"""Whoever keeps a connection waiting is cut off soon; nobody who does not is in a hurry."""


def opened(url: str) -> socket.socket:
    parts = urlsplit(url)
    return socket.create_connection((parts.hostname, parts.port or 80), timeout=30)


def everything(connection: socket.socket) -> bytes:
    """What comes until the server closes."""
    received = b""
    while part := connection.recv(65536):
        received += part
    return received


def error(received: bytes, status: int) -> dict[str, Any]:
    """The error of an answer with this status, which closes the connection."""
    head, _, body = received.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status), head
    assert b"content-type: application/json" in head.lower()
    assert b"connection: close" in head.lower()
    assert set(json.loads(body)) == {"error"}
    found = dict(json.loads(body)["error"])
    assert set(found) == {"message", "type", "param", "code"}
    return found


def asked(url: str, data: bytes) -> bytes:
    """What comes back; asked again where this side was too slow for a hasty server."""
    received = b""
    for _ in range(20):
        with opened(url) as connection:
            connection.sendall(data)
            received = everything(connection)
        if received:
            break
    return received


def head(url: str, *fields: str, path: str = "/v1/chat/completions", method: str = "POST") -> bytes:
    lines = (f"{method} {path} HTTP/1.1", f"Host: {urlsplit(url).netloc}", *fields)
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


@pytest.fixture(scope="module")
def hasty() -> Iterator[str]:
    with running(FakeService(), connections=HASTY) as url:
        yield url


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running(FakeService()) as address:
        yield address


@pytest.mark.parametrize(
    "data", [b"nonsense\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00", b"GET / HTTP/1.1\r\nHost : x\r\n\r\n"]
)
def test_what_is_no_http(url: str, data: bytes) -> None:
    found = error(asked(url, data), 400)
    assert (found["type"], found["code"]) == ("invalid_request_error", "invalid_http")


def test_too_many_headers(url: str) -> None:
    assert "100 headers" in error(asked(url, head(url, *(f"X-{n}: 1" for n in range(101)))), 431)["message"]


@pytest.mark.parametrize("end", [b"", b"\r\n\r\n"])
@pytest.mark.parametrize("start", [b"GET /health HTTP/1.1\r\nX: ", b"GET /"])
def test_headers_that_do_not_end(url: str, start: bytes, end: bytes) -> None:
    data = start + b"a" * 40_000 + (b" HTTP/1.1" if start.endswith(b"/") and end else b"") + end
    assert "32768 bytes" in error(asked(url, data), 431)["message"]


def test_an_ordinary_request_is_within_the_limits(url: str) -> None:
    fields = [f"X-{n}: {'a' * 200}" for n in range(90)]
    assert asked(url, head(url, *fields, "Connection: close", path="/health", method="GET")).endswith(
        b'{"status":"ok"}'
    )


def test_a_connection_that_says_nothing_is_closed(hasty: str) -> None:
    with opened(hasty) as connection:
        assert everything(connection) == b""


@pytest.mark.parametrize("data", [b"GET /health HTTP/1.1\r\nHost:", b"\r\n\r\nGET"])
def test_a_head_that_does_not_come(hasty: str, data: bytes) -> None:
    assert error(asked(hasty, data), 408)["code"] == "request_timeout"


def test_empty_lines_keep_no_connection(hasty: str) -> None:
    """Each is taken before a request, as HTTP has it, and none puts the end off."""
    stop = threading.Event()
    with opened(hasty) as connection:

        def drip() -> None:
            while not stop.wait(0.02):
                try:
                    connection.sendall(b"\r\n")
                except OSError:
                    return

        dripping = threading.Thread(target=drip)
        dripping.start()
        try:
            everything(connection)
        except ConnectionResetError:
            pass
        finally:
            stop.set()
            dripping.join()


def test_a_body_that_does_not_come(hasty: str) -> None:
    data = head(hasty, "Content-Type: application/json", "Content-Length: 100") + b'{"model"'
    assert error(asked(hasty, data), 408)["code"] == "request_timeout"


def test_a_body_that_comes_byte_by_byte(hasty: str) -> None:
    with opened(hasty) as connection:
        connection.sendall(head(hasty, "Content-Type: application/json", "Content-Length: 100000"))
        stop = threading.Event()

        def drip() -> None:
            while not stop.wait(0.02):
                try:
                    connection.sendall(b" ")
                except OSError:
                    return

        dripping = threading.Thread(target=drip)
        dripping.start()
        try:
            assert connection.recv(12) == b"HTTP/1.1 408"
        finally:
            stop.set()
            dripping.join()


def test_an_idle_connection_is_closed_after_its_answer(hasty: str) -> None:
    """It is closed because of time and of nothing else: `Connection: keep-alive` was answered in kind."""
    received = asked(hasty, head(hasty, path="/health", method="GET"))
    assert received.startswith(b"HTTP/1.1 200 ")
    assert b"connection: close" not in received.lower()


def test_a_long_answer_is_not_hurried() -> None:
    """While a client waits for its answer nothing times out."""
    service = FakeService()
    service.events = []
    limits = ConnectionLimits(head_seconds=1.0, body_seconds=1.0, pause_seconds=1.0)
    with running(service, connections=limits) as url, opened(url) as connection:
        body = json.dumps(chat_body()).encode()
        fields = ("Content-Type: application/json", f"Content-Length: {len(body)}", "Connection: close")
        connection.sendall(head(url, *fields) + body)
        assert service.submitted.wait(30)
        with opened(url) as other:  # which is closed by the timers that the first one is free of
            assert everything(other) == b""
        for event in FakeService().events:
            service.tickets[0].send(event)
        assert everything(connection).startswith(b"HTTP/1.1 200 ")


def test_too_many_connections() -> None:
    with running(FakeService(), connections=ConnectionLimits(max_connections=2)) as url:
        first, second = opened(url), opened(url)
        for connection in (first, second):
            connection.sendall(head(url, path="/health", method="GET"))
            assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
        with opened(url) as third:
            assert error(everything(third), 503)["code"] == "too_many_connections"
        first.close()
        second.close()


# Hosts.


@pytest.mark.parametrize(
    ("header", "name"),
    [("localhost", "localhost"), ("LocalHost:80", "localhost"), ("[::1]:8000", "::1"), ("127.0.0.1:1", "127.0.0.1")],
)
def test_the_name_in_a_host_header(header: str, name: str) -> None:
    assert host_name(header) == name


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "", "127.0.0.1.evil.example:8000"])
def test_a_strangers_name_is_refused(host: str) -> None:
    settings = Settings(served_model_name="mini", allowed_hosts=host_names([], "127.0.0.1"))
    client = TestClient(create_app(FakeService(), settings), base_url="http://localhost:8000")
    assert client.get("/health").status_code == 200
    assert client.get("/health", headers={"Host": "127.0.0.1:8000"}).status_code == 200
    response = client.get("/v1/models", headers={"Host": host})
    assert response.status_code == 403
    assert response.json()["error"]["code"] == "host_not_allowed"
    assert response.headers["x-request-id"]


def test_names_that_are_allowed() -> None:
    assert host_names([], "127.0.0.1")[:3] == ("localhost", "127.0.0.1", "::1")
    assert host_names([], "0.0.0.0") == ()
    assert host_names(["a.example, b.example"], "0.0.0.0") == ("a.example", "b.example")
    assert "a.example" in host_names(["a.example"], "127.0.0.1")
    assert host_names(["*"], "127.0.0.1") == ()
    with pytest.raises(OptionError, match="allowed host"):
        Settings(served_model_name="mini", allowed_hosts=("http://a.example/",))
