"""A request to an application as plain values, and its answer piece by piece."""

import asyncio
from typing import Any

import pytest
from router.replicas import server
from server.fake import FakeService, block, result

from gesso.cluster.call import Call, Part, answer
from gesso.engine.events import Finished

CHAT = b'{"model": "mini", "messages": [{"role": "user", "content": "Hi"}], "stream": true}'
JSON = ((b"content-type", b"application/json"),)


async def collect(app: Any, call: Call, most: int | None = None) -> list[Part]:
    parts: list[Part] = []
    coming = answer(app, call)
    async for part in coming:
        parts.append(part)
        if len(parts) == most:
            await coming.aclose()  # type: ignore[attr-defined]
    return parts


def test_a_stream_comes_in_parts() -> None:
    parts = asyncio.run(collect(server(FakeService()), Call("POST", "/v1/chat/completions", JSON, CHAT)))
    assert parts[0][0] == 200
    assert dict(parts[0][1])[b"content-type"].startswith(b"text/event-stream")  # type: ignore[arg-type]
    assert len(parts) > 3
    assert b"".join(parts[1:]).endswith(b"data: [DONE]\n\n")  # type: ignore[arg-type]


def test_path_query_and_headers_come_through() -> None:
    seen: dict[str, Any] = {}

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.update(scope, body=(await receive())["body"])
        await send({"type": "http.response.start", "status": 204, "headers": [(b"X-A", b"1")]})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    assert asyncio.run(collect(app, Call("PUT", "/a%20b?c=d", ((b"x-b", b"2"),), b"ab"))) == [(204, [(b"x-a", b"1")])]
    assert (seen["method"], seen["path"], seen["raw_path"], seen["query_string"]) == ("PUT", "/a b", b"/a%20b", b"c=d")
    assert (b"content-length", b"2") in seen["headers"]
    assert (b"x-b", b"2") in seen["headers"]
    assert seen["body"] == b"ab"


def test_whoever_stops_reading_has_hung_up() -> None:
    service = FakeService()
    service.events = [block("Hello")]
    parts = asyncio.run(collect(server(service), Call("POST", "/v1/chat/completions", JSON, CHAT), most=2))
    assert len(parts) == 2
    assert service.tickets[0].cancelled.is_set()


def test_an_application_that_ends_early_is_told_of() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    with pytest.raises(RuntimeError, match="ended before"):
        asyncio.run(collect(app, Call("GET", "/", (), b"")))


def test_a_whole_answer_is_one_part() -> None:
    service = FakeService()
    service.events = [block("Hello"), Finished(result(text="Hello"))]
    body = CHAT.replace(b"true", b"false")
    head, *rest = asyncio.run(collect(server(service), Call("POST", "/v1/chat/completions", JSON, body)))
    assert head[0] == 200
    assert len(rest) == 1
