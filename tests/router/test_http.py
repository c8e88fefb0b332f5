"""The router's own connections, against a server that says exactly what a test wants."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

from gesso.router.client import NoHttpError, NotListeningError, ReplicaLostError, header
from gesso.router.http import HttpClient
from gesso.router.wire import FULL
from router.replicas import run

Says = Callable[[bytes, asyncio.StreamWriter], Coroutine[Any, Any, bool]]
OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nhi"


@contextlib.asynccontextmanager
async def saying(say: Says) -> AsyncIterator[tuple[HttpClient, list[int]]]:
    """A server whose `say` says whether its connection stays; a client; requests by connection."""
    counts: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        place = len(counts)
        counts.append(0)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                counts[place] += 1
                if b"content-length: " in head:
                    await reader.readexactly(int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0]))
                if not await say(head, writer):
                    break
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    client = HttpClient(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    try:
        yield client, counts
    finally:
        await client.close()
        server.close()


def says(*answers: bytes, stays: bool = True) -> Says:
    left = list(answers)

    async def say(head: bytes, writer: asyncio.StreamWriter) -> bool:
        for part in left.pop(0).split(b"|"):
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0)
        return stays or bool(left)

    return say


async def ask(client: HttpClient, method: str = "GET", **given: Any) -> tuple[int, bytes]:
    answer = await client.send(method, "/a?b=1", **given)
    try:
        return answer.status, await answer.read()
    finally:
        await answer.close()


def test_one_connection_carries_one_request_behind_the_other() -> None:
    heads: list[bytes] = []

    async def say(head: bytes, writer: asyncio.StreamWriter) -> bool:
        heads.append(head)
        writer.write(OK)
        return True

    async def play() -> list[int]:
        async with saying(say) as (client, counts):
            assert await ask(client, headers=[(b"x-a", b"1")]) == (200, b"hi")
            assert await ask(client, "POST", body=b"x" * (FULL + 1)) == (200, b"hi")
            assert await ask(client, "POST") == (200, b"hi")
            return counts

    assert run(play()) == [3]
    assert heads[0].startswith(b"GET /a?b=1 HTTP/1.1\r\nhost: 127.0.0.1:")
    assert b"\r\nx-a: 1\r\n" in heads[0]
    assert b"content-length" not in heads[0]
    assert b"content-length: 0\r\n" in heads[2]


@pytest.mark.parametrize(
    ("said", "status", "body"),
    [
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n|2;x=y\r\nde|\r\n0\r\n\r\n", 200, b"abcde"),
        (b"HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na", 200, b"a"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
        (b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n", 404, b""),
    ],
)
def test_answers_of_all_kinds_leave_the_connection_free(said: bytes, status: int, body: bytes) -> None:
    async def play() -> None:
        async with saying(says(said, OK)) as (client, counts):
            assert await ask(client) == (status, body)
            assert await ask(client) == (200, b"hi")
            assert counts == [2]

    run(play())


def test_an_answer_without_a_length_ends_with_its_connection() -> None:
    async def play() -> None:
        async with saying(says(b"HTTP/1.0 200 OK\r\n\r\nab|cd", stays=False)) as (client, _):
            assert await ask(client) == (200, b"abcd")

    run(play())


def test_a_head_alone_is_asked_for() -> None:
    async def play() -> None:
        async with saying(says(OK.removesuffix(b"hi"), OK)) as (client, counts):
            assert await ask(client, "HEAD") == (200, b"")
            assert await ask(client) == (200, b"hi")
            assert counts == [1, 1]

    run(play())


def test_a_connection_that_was_closed_meanwhile_is_no_failure() -> None:
    """Closed while it was idle, and closed at the very moment of the next request."""

    async def play(waits: bool) -> list[int]:
        left = [True]

        async def say(head: bytes, writer: asyncio.StreamWriter) -> bool:
            if not left and not waits:
                left.append(True)
                return False
            if left:
                left.pop()
            writer.write(OK)
            return not waits

        async with saying(say) as (client, counts):
            assert await ask(client) == (200, b"hi")
            if waits:
                while client._open:
                    await asyncio.sleep(0)
            assert await ask(client) == (200, b"hi")
            return counts

    assert run(play(True)) == [1, 1]
    assert run(play(False)) == [2, 1]


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
        b"SSH-2.0-x\r\n\r\n",
    ],
)
def test_an_answer_that_breaks_off_is_told(said: bytes) -> None:
    async def play() -> None:
        async with saying(says(said, stays=False)) as (client, counts):
            with pytest.raises(NoHttpError if said.startswith(b"SSH") else ReplicaLostError):
                await ask(client)
            assert counts == [1]

    run(play())


def test_nobody_listens() -> None:
    async def play() -> None:
        async with saying(says()) as (client, _):
            pass
        with pytest.raises(ReplicaLostError):
            await client.send("GET", "/")  # it was closed
        for host in (f"127.0.0.1:{client._port}", f"{'a' * 64}.example"):
            with pytest.raises(NotListeningError):
                await HttpClient(f"http://{host}").send("GET", "/")

    run(play())


@pytest.mark.parametrize("target", ["/a b", "/a\r\nx: y", ""])
def test_what_is_no_address_is_not_sent(target: str) -> None:
    with pytest.raises(ReplicaLostError):
        run(HttpClient("http://127.0.0.1:9").send("GET", target))


def test_cut_connections_are_told_what_they_had_and_that_they_are_cut() -> None:
    async def play() -> tuple[list[bytes], str]:
        async with saying(says(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc")) as (client, _):
            answer = await client.send("GET", "/")
            assert header(answer, b"content-length") == "9"
            got: list[bytes] = []
            try:
                async for part in answer.chunks():
                    got.append(part)
                    await client.close()
            except ReplicaLostError as error:
                return got, str(error)
            raise AssertionError

    assert run(play()) == ([b"abc"], "its connections were cut")


def test_a_slow_reader_holds_the_server_up() -> None:
    size = 64 * FULL

    async def say(head: bytes, writer: asyncio.StreamWriter) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        for _ in range(64):
            writer.write(b"x" * FULL)
            await writer.drain()
        return True

    async def play() -> tuple[int, int]:
        async with saying(say) as (client, _):
            answer: Any = await client.send("GET", "/")
            while not answer._paused:
                await asyncio.sleep(0)
            held = answer._waiting
            total = sum([len(part) async for part in answer.chunks()])
            await answer.close()
            return held, total

    held, total = run(play())
    assert held < size / 2
    assert total == size
