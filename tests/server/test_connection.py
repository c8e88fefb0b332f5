"""Connections that ask too much or too little, against a real socket."""

import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from http.client import HTTPResponse
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from gesso.server import connection as module
from gesso.server.connection import Connection, ConnectionLimits
from server.conftest import chat_body, eventually, running
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


def posted(url: str, fields: dict[str, Any], *more: str, path: str = "/v1/chat/completions") -> bytes:
    body = json.dumps(fields).encode()
    return head(url, "Content-Type: application/json", f"Content-Length: {len(body)}", *more, path=path) + body


def status(connection: socket.socket) -> int:
    """The status of the next answer, which is read to its end."""
    response = HTTPResponse(connection)
    response.begin()
    response.read()
    return response.status


def test_a_head_may_come_in_pieces(url: str) -> None:
    data = head(url, *(f"X-{n}: {'a' * 300}" for n in range(80)), path="/health", method="GET")
    with opened(url) as connection:
        for start in range(0, len(data), 6000):
            connection.sendall(data[start : start + 6000])
            time.sleep(0.05)
        assert status(connection) == 200


def test_no_timer_but_ours_closes_an_idle_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Connection.connection_made

    def in_a_hurry(self: Connection, transport: Any) -> None:
        self.timeout_keep_alive = 0
        made(self, transport)

    monkeypatch.setattr(Connection, "connection_made", in_a_hurry)
    with running(FakeService()) as url, opened(url) as connection:
        for _ in range(2):
            connection.sendall(head(url, path="/health", method="GET"))
            assert status(connection) == 200
            time.sleep(0.2)


# Answers that are complete before the body is.


@pytest.mark.parametrize("rest", [b"", b"}"])
def test_a_connection_is_closed_also_where_its_answer_came_first(rest: bytes) -> None:
    limits = ConnectionLimits(head_seconds=0.5, body_seconds=1.0, pause_seconds=1.0)
    with running(FakeService(), connections=limits, api_keys=("key",)) as url, opened(url) as connection:
        connection.sendall(head(url, "Content-Type: application/json", "Content-Length: 2") + b"{")
        assert status(connection) == 401
        connection.sendall(rest)
        assert everything(connection) == b""


def test_a_body_behind_its_answer_is_no_head() -> None:
    with running(FakeService(), api_keys=("key",)) as url, opened(url) as connection:
        connection.sendall(head(url, "Content-Type: application/json", "Content-Length: 100000"))
        assert status(connection) == 401
        connection.sendall(b" " * 100_000 + head(url, path="/health", method="GET"))
        assert status(connection) == 200


# Clients that read nothing.


def narrow(transport: Any) -> None:
    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1024)


QUICK = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Without the system's certificates, which httpx reads for every request otherwise."""


def reluctant(url: str) -> socket.socket:
    """A connection that takes little of an answer before it is read."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
    connection.settimeout(30)
    connection.connect((urlsplit(url).hostname, urlsplit(url).port))
    return connection


@pytest.mark.parametrize("tokens", [6_000, 30_000])
@pytest.mark.parametrize("more", ["Connection: close", "Connection: keep-alive", "behind"])
def test_a_client_that_reads_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch, tokens: int, more: str) -> None:
    """Also where the answer is complete, however little of it is left, and whatever is sent behind the request."""
    monkeypatch.setattr(module, "_probe", narrow)
    limits = ConnectionLimits(max_connections=1, head_seconds=1.0, body_seconds=2.0, pause_seconds=2.0)
    with running(FakeService(), connections=limits) as url, reluctant(url) as connection:
        fields = {"tokens": [1000] * tokens}
        connection.sendall(posted(url, fields, *([more] if ":" in more else []), path="/v1/detokenize"))
        assert connection.recv(12) == b"HTTP/1.1 200"
        if more == "behind":
            connection.sendall(head(url, path="/health", method="GET"))
        assert httpx.get(f"{url}/health").status_code == 503
        assert eventually(lambda: httpx.get(f"{url}/health", verify=QUICK).status_code == 200, 15)


def test_a_client_that_reads_slowly_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SLOWEST", 1024)
    monkeypatch.setattr(module, "_probe", narrow)
    limits = ConnectionLimits(head_seconds=1.0, body_seconds=1.0, pause_seconds=1.0)
    with running(FakeService(), connections=limits) as url, reluctant(url) as connection:
        asked = posted(url, {"tokens": [1000] * 12_000}, "Connection: close", path="/v1/detokenize")
        connection.sendall(asked)
        started, received = time.monotonic(), b""
        while part := connection.recv(2048):
            received += part
            time.sleep(0.05)
        assert time.monotonic() - started > 2 * limits.body_seconds
        whole, _, answer = received.partition(b"\r\n\r\n")
        assert whole.startswith(b"HTTP/1.1 200 ")
        assert json.loads(answer)["text"]


# Requests that are sent before the answer to the last one.


def test_a_request_behind_another_has_its_time_when_its_turn_comes() -> None:
    service = FakeService()
    service.events = []
    limits = ConnectionLimits(head_seconds=1.0, body_seconds=1.0, pause_seconds=1.0)
    with running(service, connections=limits) as url, opened(url) as connection:
        first, second = posted(url, chat_body()), posted(url, chat_body(), "Connection: close")
        connection.sendall(first + second[:-1])
        assert service.submitted.wait(30)
        for _ in range(2):  # longer than any of the limits
            with opened(url) as other:
                assert everything(other) == b""
        assert len(service.tickets) == 1
        service.events = FakeService().events
        for event in service.events:
            service.tickets[0].send(event)
        assert status(connection) == 200
        connection.sendall(second[-1:])
        assert status(connection) == 200


def test_an_error_behind_a_request_is_not_written_into_its_answer() -> None:
    service = FakeService()
    service.events = service.events[:1]
    with running(service) as url, opened(url) as connection:
        connection.sendall(posted(url, chat_body(stream=True)) + head(url, path="/health", method="GET"))
        received = b""
        while b"Hello" not in received:
            received += connection.recv(65536)
        connection.sendall(b"nonsense\r\n\r\n")
        received += everything(connection)
        assert received.count(b"HTTP/1.1 ") == 1
        assert service.tickets[0].cancelled.wait(30)
