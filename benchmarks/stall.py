"""How long a healthy client is held up by one hostile request beside it.

    python benchmarks/stall.py [--model mini] [--copies 1] [--only WORD]

A server runs in a process of its own, on loopback. For each of the requests in `_bombs.py` it is sent so many copies;
as soon as they are out, a healthy client asks a short question and its answer is timed, again and again for
`SECONDS`. The hostile clients are gone then, and the next bomb follows when the healthy client is as quick as before.
The stall is the longest of those answers less the median of what the same question takes alone; the goal is 0.5 s. The
last line is one line of JSON.
"""

import argparse
import json
import os
import socket
import statistics
import sys
import time
from typing import Any
from urllib.parse import urlsplit

import httpx

from _bombs import Bomb, bombs
from serve import server

SECONDS = 1.5
"""For which healthy questions are asked beside a bomb."""
GOAL = 0.5


def send(url: str, bomb: Bomb) -> socket.socket:
    """A connection on which the bomb is out."""
    parts = urlsplit(url)
    connection = socket.create_connection((parts.hostname, parts.port or 80), timeout=30)
    fields = (f"Host: {parts.netloc}", "Content-Type: application/json", f"Content-Length: {len(bomb.body)}")
    head = "\r\n".join((f"POST {bomb.path} HTTP/1.1", *fields))
    connection.sendall(f"{head}\r\n\r\n".encode() + bomb.body)
    return connection


class Healthy:
    """A client with one short question."""

    def __init__(self, url: str, model: str) -> None:
        self._client = httpx.Client(base_url=url, timeout=120)
        self._body = {"model": model, "seed": 7, "messages": [{"role": "user", "content": "What is 481 + 296?"}]}
        self._body |= {"diffusion": {"verify": 0}, "max_tokens": 16}
        self.own = 0.0

    def ask(self) -> float:
        """Seconds that an answer takes."""
        started = time.perf_counter()
        response = self._client.post("/v1/chat/completions", json=self._body)
        response.raise_for_status()
        return time.perf_counter() - started

    def settle(self) -> None:
        """Wait until it is as quick as alone."""
        deadline = time.perf_counter() + 60
        while self.ask() > 1.5 * self.own and time.perf_counter() < deadline:
            time.sleep(0.1)


def stall(url: str, healthy: Healthy, bomb: Bomb, copies: int) -> float:
    """Seconds by which the slowest answer beside a bomb is slower than alone."""
    connections = [send(url, bomb) for _ in range(copies)]
    try:
        started, times = time.perf_counter(), [healthy.ask()]
        while time.perf_counter() - started < SECONDS:
            times.append(healthy.ask())
    finally:
        for connection in connections:
            connection.close()
    healthy.settle()
    return max(times) - healthy.own


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="mini")
    parser.add_argument("--copies", type=int, default=1, help="of each bomb, at once")
    parser.add_argument("--only", default="", help="bombs whose name holds this word")
    asked = parser.parse_args()
    found: dict[str, float] = {}
    with server("gesso", asked.model) as (url, _):
        healthy = Healthy(url, asked.model)
        healthy.ask()
        healthy.own = statistics.median(healthy.ask() for _ in range(9))
        print(f"alone: {healthy.own:.3f} s, {os.cpu_count()} cores, {asked.copies} of each at once")
        for bomb in bombs():
            if asked.only in bomb.name:
                found[bomb.name] = stall(url, healthy, bomb, asked.copies)
                print(
                    f"{bomb.name:34} {found[bomb.name]:6.3f} s{'' if found[bomb.name] <= GOAL else '  past the goal'}"
                )
    worst = max(found, key=lambda name: found[name])
    report: dict[str, Any] = {
        "benchmark": "stall",
        "model": asked.model,
        "copies": asked.copies,
        "bombs": len(found),
        "own_seconds": round(healthy.own, 4),
        "worst_stall_seconds": round(found[worst], 3),
        "worst": worst,
        "goal_seconds": GOAL,
        "past_the_goal": [name for name, seconds in found.items() if seconds > GOAL],
    }
    print(json.dumps(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
