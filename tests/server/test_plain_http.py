"""Clients that offer another protocol, and those of HTTP/1.0, against a real socket."""

import json
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from server.conftest import chat_body, running
from server.fake import FakeService

UPGRADE = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAA\r\n"
BODY = json.dumps(chat_body()).encode()
MODELS = b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running(FakeService()) as url:
        yield url


def answers(url: str, *parts: bytes) -> list[tuple[bytes, bytes]]:
    """Heads and what is behind them, until the server closes."""
    where = urlsplit(url)
    with socket.create_connection((where.hostname, where.port or 80), timeout=30) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for part in parts:
            connection.sendall(part)
        received = b""
        while part := connection.recv(65536):
            received += part
    whole = received.split(b"HTTP/1.1 ")[1:]
    return [(head, body) for head, _, body in (answer.partition(b"\r\n\r\n") for answer in whole)]


def post(*headers: bytes, body: bytes = BODY, version: bytes = b"1.1", sized: bool = True) -> bytes:
    length = (b"Content-Length: %d" % len(body),) if sized else ()
    kind = b"Content-Type: application/json"
    lines = (b"POST /v1/chat/completions HTTP/" + version, b"Host: localhost", kind, *headers, *length)
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def chunked(body: bytes) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:9], body[9:])) + b"0\r\n\r\n"


@pytest.mark.parametrize("cut", ["whole", "behind the head", "byte by byte"])
@pytest.mark.parametrize("framing", ["length", "chunks"])
def test_an_upgrade_that_is_offered_is_not_taken(url: str, cut: str, framing: str) -> None:
    """The body is the request's, and what is behind it the next request."""
    offered = UPGRADE.rstrip()
    if framing == "chunks":
        first = post(offered, b"Transfer-Encoding: chunked", body=chunked(BODY), sized=False)
    else:
        first = post(offered)
    data = first + first + MODELS
    head = data.index(b"\r\n\r\n") + 4
    parts = {"whole": [data], "behind the head": [data[:head], data[head:]]}
    found = answers(url, *parts.get(cut, [data[i : i + 1] for i in range(len(data))]))
    assert [head.split()[0] for head, _ in found] == [b"200"] * 3
    assert [json.loads(body)["object"] for _, body in found] == ["chat.completion"] * 2 + ["list"]


def test_a_body_that_looks_like_a_request_is_none(url: str) -> None:
    ((head, body),) = answers(url, post(UPGRADE.rstrip(), b"Connection: close", body=MODELS))
    assert head.startswith(b"400 ")
    assert b"JSON" in body


def test_an_upgrade_without_a_body_is_answered(url: str) -> None:
    first = b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n" + UPGRADE + b"\r\n"
    assert [head.split()[0] for head, _ in answers(url, first * 300 + MODELS)] == [b"200"] * 301


def test_what_is_broken_or_too_large_behind_an_upgrade_is_refused(url: str) -> None:
    broken = post(UPGRADE.rstrip(), b"Transfer-Encoding: chunked", body=b"zz\r\n", sized=False)
    ((head, _),) = answers(url, broken)
    assert head.startswith(b"400 ")
    ((head, _),) = answers(url, post(UPGRADE.rstrip(), b"Transfer-Encoding: gzip", body=b"x", sized=False))
    assert head.startswith(b"400 ")
    many = b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 101 + b"\r\n"
    assert [head.split()[0] for head, _ in answers(url, post(UPGRADE.rstrip()) + many)][-1] == b"431"


def test_a_client_of_http_1_0_gets_a_stream_as_it_is(url: str) -> None:
    body = json.dumps(chat_body() | {"stream": True}).encode()
    ((head, events),) = answers(url, post(body=body, version=b"1.0"))
    assert b"transfer-encoding" not in head.lower()
    assert b"connection: close" in head.lower()
    assert events.startswith(b"data: {")
    assert events.endswith(b"data: [DONE]\n\n")
    ((head, whole),) = answers(url, post(version=b"1.0"))
    assert b"content-length: %d" % len(whole) in head.lower()
