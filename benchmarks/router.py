"""What a router costs, and what it saves: python benchmarks/router.py [--requests 48] [--kills 4] [--only kills]

1. The same requests one by one and eight at a time, at one server directly and through a router before it, in turns:
   throughput and time to the first block. Ceiling: the server alone.
2. The router's own processor time a request, before a server that does nothing but answer.
3. Requests with a shared beginning of 1,000 characters at two servers: the share of them at one.
4. Clients that stream through the router while servers are killed: streams broken, texts equal to undisturbed ones.

It ends in one JSON line.
"""

import argparse
import asyncio
import json
import os
import random
import re
import signal
import statistics
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import httpx

from _processes import first_thread_seconds, gesso_server, processor_seconds

QUESTIONS = ("What is 481 + 296?", "Sort 5, 3, 9 and 1.", "Count from 1 to 9.", "What is 17 + 25?")


@contextmanager
def routing(*arguments: str) -> Iterator[tuple[str, int]]:
    """A router; yields its address when all its servers are up, and its process id."""
    with gesso_server("router", "--health-seconds", "1", "--wait-seconds", "300", *arguments) as (url, pid):
        while {replica["state"] for replica in replicas(url)} != {"up"}:
            time.sleep(0.5)
        yield url, pid


def replicas(url: str) -> list[dict[str, Any]]:
    """The replicas of a router; one that is lost stands for those that are not there yet."""
    found = httpx.get(f"{url}/router/replicas", timeout=60).json()["data"]
    return found or [{"state": "lost"}]


def body(number: int, **fields: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": QUESTIONS[number % len(QUESTIONS)]}]
    return {"model": "mini", "seed": number, "max_tokens": 64, "messages": messages, "stream": True, **fields}


async def ask(client: httpx.AsyncClient, number: int, **fields: Any) -> dict[str, Any]:
    """One stream: its text, its ends, errors, and seconds to its first block."""
    began, first, text, ends, errors = time.perf_counter(), None, "", 0, list[str]()
    async with client.stream("POST", "/v1/chat/completions", json=body(number, **fields)) as response:
        async for line in response.aiter_lines():
            if not line.startswith("data: "):
                continue
            if line == "data: [DONE]":
                ends += 1
                continue
            data = json.loads(line.removeprefix("data: "))
            if "error" in data:
                errors.append(str(data["error"]["message"]))
            for choice in data.get("choices", ()):
                said = choice["delta"].get("content") or ""
                if said and first is None:
                    first = time.perf_counter() - began
                text += said
    return {"text": text, "ends": ends, "errors": errors, "first": first or time.perf_counter() - began}


async def load(
    url: str, headers: dict[str, str], numbers: range, at_once: int, **fields: Any
) -> tuple[float, list[dict[str, Any]]]:
    """Asks all, so many at a time; returns seconds and answers."""
    gate = asyncio.Semaphore(at_once)
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=None, limits=limits) as client:

        async def one(number: int) -> dict[str, Any]:
            async with gate:
                return await ask(client, number, **fields)

        began = time.perf_counter()
        answers = await asyncio.gather(*map(one, numbers))
        return time.perf_counter() - began, answers


def overhead(requests: int, rounds: int) -> dict[str, Any]:
    """A server alone and behind a router, in turns, so that what else the machine does meets both."""
    key = "benchmark"
    headers, environment = {"Authorization": f"Bearer {key}"}, {**os.environ, "GESSO_API_KEY": key}
    firsts, seconds = dict[str, list[float]](), {"direct": 0.0, "routed": 0.0}
    ratios, spent = list[float](), {"direct": 0.0, "routed": 0.0, "router": 0.0}
    with (
        gesso_server("serve", "--device", "cpu", "--offline", environment=environment) as (direct, server),
        routing("--replicas", direct) as (routed, router),
    ):
        for url in (direct, routed):
            asyncio.run(load(url, headers, range(8), 4))
        for turn in range(rounds):
            took = {}
            for name, url in (("direct", direct), ("routed", routed))[:: 1 if turn % 2 else -1]:
                before = {router: first_thread_seconds(router), server: processor_seconds(server)}
                took[name], _ = asyncio.run(load(url, headers, range(requests), 8))
                spent[name] += processor_seconds(server) - before[server]
                if name == "routed":
                    spent["router"] += first_thread_seconds(router) - before[router]
                seconds[name] += took[name]
                _, alone = asyncio.run(load(url, headers, range(8), 1))
                firsts.setdefault(name, []).extend(each["first"] for each in alone)
            ratios.append(took["routed"] / took["direct"] - 1)
    gaps = [b - a for a, b in zip(sorted(firsts["direct"]), sorted(firsts["routed"]), strict=True)]
    return {
        "requests": requests * rounds,
        "direct_requests_per_second": round(requests * rounds / seconds["direct"], 2),
        "routed_requests_per_second": round(requests * rounds / seconds["routed"], 2),
        "server_cpu_ms_per_request": round(1000 * spent["routed"] / (requests * rounds), 1),
        "router_cpu_ms_per_request": round(1000 * spent["router"] / (requests * rounds), 2),
        "router_cpu_share": round(spent["router"] / spent["routed"], 4),
        "throughput_lost": round(statistics.median(ratios), 4),
        "first_block_added_ms": round(1000 * statistics.median(gaps), 2),
    }


CANNED = [
    {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]},
    {"choices": [{"index": 0, "delta": {"content": "The sum of 481 and 296 is 777."}, "finish_reason": None}]},
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
]


async def canned(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers every request with the same stream of four events, a millisecond apart."""
    lines = [json.dumps({"id": "chatcmpl-1", "object": "chat.completion.chunk", **chunk}) for chunk in CANNED]
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            asked = await reader.readuntil(b"\r\n\r\n")
            if (length := re.search(rb"content-length: (\d+)", asked)) is not None:
                await reader.readexactly(int(length[1]))
            writer.write(head)
            for line in [*lines, "[DONE]"]:
                event = f"data: {line}\n\n".encode()
                writer.write(b"%x\r\n%s\r\n" % (len(event), event))
                await asyncio.sleep(0.001)
            writer.write(b"0\r\n\r\n")
    writer.close()


async def cost(requests: int) -> dict[str, Any]:
    """The router's own processor time, before a server that does nothing."""
    server = await asyncio.start_server(canned, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    stack = ExitStack()
    routed, pid = await asyncio.to_thread(stack.enter_context, routing("--replicas", url))
    found: dict[str, Any] = {"requests": requests}
    try:
        await load(routed, {}, range(20), 4)
        for name, at_once in (("one_by_one", 1), ("eight_at_a_time", 8)):
            before = first_thread_seconds(pid)
            _, answers = await load(routed, {}, range(requests), at_once)
            assert all(each["ends"] == 1 for each in answers)
            found[f"router_cpu_ms_{name}"] = round(1000 * (first_thread_seconds(pid) - before) / requests, 2)
    finally:
        await asyncio.to_thread(stack.close)
        server.close()
    return found


def shared(url: str, requests: int) -> dict[str, Any]:
    """One beginning, two servers, even load."""
    beginning = "You answer questions about numbers, in as few words as you can. " * 16

    def counts() -> dict[str, int]:
        return {replica["name"]: replica["requests"] for replica in replicas(url)}

    before = counts()
    system = [{"role": "system", "content": beginning[:1000]}]
    for number in range(requests):
        messages = [*system, {"role": "user", "content": f"What is {number} + 9?"}]
        asyncio.run(load(url, {}, range(number, number + 1), 1, messages=messages, max_tokens=8))
    got = [after - before[name] for name, after in counts().items()]
    return {"requests": requests, "share_to_one": round(max(got) / sum(got), 3)}


async def killed(url: str, clients: int, requests: int, kills: int) -> dict[str, Any]:
    """Streams under load while servers die, against the same ones undisturbed."""
    _, undisturbed = await load(url, {}, range(requests), clients)
    loading = asyncio.create_task(load(url, {}, range(requests), clients))
    draw, done = random.Random(3), 0
    while not loading.done() and done < kills:
        await asyncio.sleep(draw.uniform(0.5, 2.0))
        up = [replica for replica in await asyncio.to_thread(replicas, url) if replica["state"] == "up"]
        busy = [replica for replica in up if replica["load"]]
        if busy:
            os.kill(draw.choice(busy)["pid"], signal.SIGKILL)
            done += 1
    _, answers = await loading
    told = await asyncio.to_thread(lambda: httpx.get(f"{url}/metrics", timeout=60).text)
    resumed = sum(
        float(line.split()[-1]) for line in told.splitlines() if line.startswith("gesso_router_resumed_streams_total{")
    )
    return {
        "kills": done,
        "streams": requests,
        "resumed": int(resumed),
        "broken": sum(bool(each["errors"]) for each in answers),
        "errors": dict(Counter(message for each in answers for message in each["errors"])),
        "texts_equal": sum(a["text"] == b["text"] for a, b in zip(undisturbed, answers, strict=True)),
        "one_end_each": all(each["ends"] == 1 for each in answers),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--kills", type=int, default=4)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument(
        "--only", default="overhead,cost,prefixes,kills", help="some of overhead, cost, prefixes and kills"
    )
    given = parser.parse_args()
    wanted, found = given.only.split(","), dict[str, Any]()
    if "overhead" in wanted:
        found["overhead"] = overhead(given.requests, given.rounds)
        print(f"router's overhead: {found['overhead']}", flush=True)
    if "cost" in wanted:
        found["cost"] = asyncio.run(cost(400))
        print(f"router's own cost: {found['cost']}", flush=True)
    if {"prefixes", "kills"} & set(wanted):
        with routing("--spawn", "2", "--", "--device", "cpu", "--offline") as (url, _):
            if "prefixes" in wanted:
                found["prefixes"] = shared(url, 20)
                print(f"shared beginning: {found['prefixes']}", flush=True)
            if "kills" in wanted:
                found["kills"] = asyncio.run(killed(url, given.clients, given.requests, given.kills))
                print(f"kills: {found['kills']}", flush=True)
    print(json.dumps({"benchmark": "router", **found}))


if __name__ == "__main__":
    main()
