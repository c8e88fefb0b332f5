"""What a router costs, and what it saves: python benchmarks/router.py [--requests 48] [--kills 4]

1. The same requests one by one and eight at a time, at one server directly and through a router before it, in turns:
   throughput and time to the first block. Ceiling: the server alone.
2. Requests with a shared beginning of 1,000 characters at two servers: the share of them at one.
3. Clients that stream through the router while servers are killed: streams broken, texts equal to undisturbed ones.

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
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

QUESTIONS = ("What is 481 + 296?", "Sort 5, 3, 9 and 1.", "Count from 1 to 9.", "What is 17 + 25?")


@contextmanager
def routing(*arguments: str) -> Iterator[str]:
    """A router with servers of its own; yields its address when all are up."""
    command = [sys.executable, "-m", "gesso", "router", "--port", "0", "--health-seconds", "1", "--wait-seconds", "300"]
    process = subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        found = re.search(r"http://\S+", process.stdout.readline())
        assert found is not None
        while {replica["state"] for replica in replicas(found[0])} != {"up"}:
            time.sleep(0.5)
        yield found[0]
    finally:
        process.terminate()
        process.wait()


def replicas(url: str) -> list[dict[str, Any]]:
    """The replicas of a router; one that is lost stands for those that are not there yet."""
    found = httpx.get(f"{url}/router/replicas", timeout=60).json()["data"]
    return found or [{"state": "lost"}]


def body(number: int, **fields: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": QUESTIONS[number % len(QUESTIONS)]}]
    return {"model": "mini", "seed": number, "max_tokens": 64, "messages": messages, "stream": True, **fields}


async def ask(client: httpx.AsyncClient, number: int, **fields: Any) -> dict[str, Any]:
    """One stream: its text, its ends, errors, and seconds to its first block."""
    began, first, text, ends, errors = time.perf_counter(), None, "", 0, 0
    async with client.stream("POST", "/v1/chat/completions", json=body(number, **fields)) as response:
        async for line in response.aiter_lines():
            if not line.startswith("data: "):
                continue
            if line == "data: [DONE]":
                ends += 1
                continue
            data = json.loads(line.removeprefix("data: "))
            errors += "error" in data
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
    environment = {**os.environ, "GESSO_API_KEY": key}
    command = [sys.executable, "-m", "gesso", "serve", "--port", "0", "--device", "cpu", "--offline"]
    server = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert server.stdout is not None
        found = re.search(r"http://\S+", server.stdout.readline())
        assert found is not None
        direct, seconds, firsts = found[0], Counter[str](), dict[str, list[float]]()
        with routing("--replicas", direct) as routed:
            headers = {"Authorization": f"Bearer {key}"}
            for url in (direct, routed):
                asyncio.run(load(url, headers, range(8), 4))
            ratios, gaps = [], []
            for turn in range(rounds):
                took = {}
                for name, url in (("direct", direct), ("routed", routed))[:: 1 if turn % 2 else -1]:
                    took[name], _ = asyncio.run(load(url, headers, range(requests), 8))
                    seconds[name] += took[name]
                    _, alone = asyncio.run(load(url, headers, range(8), 1))
                    firsts.setdefault(name, []).extend(each["first"] for each in alone)
                ratios.append(took["routed"] / took["direct"] - 1)
            gaps = [b - a for a, b in zip(sorted(firsts["direct"]), sorted(firsts["routed"]), strict=True)]
        return {
            "requests": requests * rounds,
            "direct_requests_per_second": round(requests * rounds / seconds["direct"], 2),
            "routed_requests_per_second": round(requests * rounds / seconds["routed"], 2),
            "throughput_lost": round(statistics.median(ratios), 4),
            "first_block_added_ms": round(1000 * statistics.median(gaps), 2),
        }
    finally:
        server.terminate()
        server.wait()


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
        if busy and len(up) > 1:
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
        "texts_equal": sum(a["text"] == b["text"] for a, b in zip(undisturbed, answers, strict=True)),
        "one_end_each": all(each["ends"] == 1 for each in answers),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--kills", type=int, default=4)
    parser.add_argument("--clients", type=int, default=16)
    given = parser.parse_args()
    cost = overhead(given.requests, given.rounds)
    print(f"router's overhead: {cost}")
    with routing("--spawn", "2", "--", "--device", "cpu", "--offline") as url:
        prefixes = shared(url, 20)
        print(f"shared beginning: {prefixes}")
        kills = asyncio.run(killed(url, given.clients, given.requests * 2, given.kills))
        print(f"kills: {kills}")
    print(json.dumps({"benchmark": "router", "overhead": cost, "prefixes": prefixes, "kills": kills}))


if __name__ == "__main__":
    main()
