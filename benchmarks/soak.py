"""A server under careless clients, for as long as one likes: does it stay whole?

    python benchmarks/soak.py [--seconds 600] [--clients 8] [--model mini] [--seed 0]

Clients ask, stream, hang up in the middle, send nonsense and too much, at random. Checked all the while: every answer
equals that of the same request asked alone at the start; nothing but the errors provoked comes back. And in the end: no
request runs or waits, no cache is held, the server is ready, its memory has stopped growing. The exit code is 1 where
one of these fails. The last line is one line of JSON.
"""

import argparse
import json
import os
import random
import socket
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from serve import server

WORDS = ("pear", "fig", "apple", "kiwi", "plum", "lemon")
KINDS = ("whole", "stream", "hang up", "hang up whole", "nonsense", "unknown field", "too long")
WEIGHTS = (6, 5, 2, 1, 1, 1, 1)
REFUSED = {"nonsense": 400, "unknown field": 400, "too long": 400}
ALLOWED_GROWTH = 24 * 2**20
"""Bytes by which the server's memory may grow after the first third: the prefix store may still fill up."""


def questions(model: str, rng: random.Random, count: int = 24) -> list[dict[str, Any]]:
    """Requests of mixed lengths and settings, each with its seed."""
    found = []
    for seed in range(count):
        text = f"Sort: {', '.join(rng.sample(WORDS, 4))}"
        if rng.random() < 0.3:
            text = "The quick brown fox. " * rng.choice((3, 20)) + text
        body: dict[str, Any] = {"model": model, "seed": seed, "messages": [{"role": "user", "content": text}]}
        body["max_tokens"] = rng.choice((8, 20, 48))
        if rng.random() < 0.3:
            body["diffusion"] = {"canvas_length": rng.choice((8, 16))}
        if rng.random() < 0.2:
            body |= {"temperature": 0.7, "top_p": 0.9}
        found.append(body)
    return found


class Soak:
    """The clients and what they saw."""

    def __init__(self, url: str, model: str, seed: int) -> None:
        self.url = url
        self.model = model
        self.seed = seed
        self.seen: Counter[str] = Counter()
        self.faults: list[str] = []
        self.bodies = questions(model, random.Random(seed))
        with httpx.Client(base_url=url, timeout=120) as session:
            self.alone = [self._text(session, body) for body in self.bodies]

    def run(self, clients: int, stop_at: float) -> None:
        threads = [threading.Thread(target=self._client, args=(index, stop_at)) for index in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _client(self, index: int, stop_at: float) -> None:
        rng = random.Random(f"{self.seed}/{index}")
        with httpx.Client(base_url=self.url, timeout=120) as session:
            while time.monotonic() < stop_at:
                kind = rng.choices(KINDS, WEIGHTS)[0]
                number = rng.randrange(len(self.bodies))
                try:
                    self._once(session, kind, number, rng)
                except Exception as error:  # whatever it is, it is the server's fault
                    self.faults.append(f"{kind}: {type(error).__name__}: {error}")
                self.seen[kind] += 1

    def _once(self, session: httpx.Client, kind: str, number: int, rng: random.Random) -> None:
        body = self.bodies[number]
        if kind in ("whole", "stream"):
            text = self._text(session, body) if kind == "whole" else self._streamed(session, body)
            if text != self.alone[number]:
                self.faults.append(f"{kind} {number}: {text!r} instead of {self.alone[number]!r}")
        elif kind == "hang up":
            with session.stream("POST", "/v1/chat/completions", json=body | {"stream": True}) as response:
                for _ in zip(range(rng.randint(0, 3)), response.iter_lines(), strict=False):
                    pass
        elif kind == "hang up whole":
            self._vanish(body | {"max_tokens": 1000}, rng.random() * 0.3)
        else:
            sent = {"nonsense": b'{"model": ', "unknown field": json.dumps(body | {"colour": 1}).encode()}
            too_long = json.dumps(body | {"max_tokens": 10**9}).encode()
            headers = {"Content-Type": "application/json"}
            response = session.post("/v1/chat/completions", content=sent.get(kind, too_long), headers=headers)
            if response.status_code != REFUSED[kind]:
                self.faults.append(f"{kind}: {response.status_code} {response.text[:200]}")

    def _vanish(self, body: dict[str, Any], seconds: float) -> None:
        """Ask, wait a moment, and close the connection."""
        parts, content = urlsplit(self.url), json.dumps(body).encode()
        head = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        with socket.create_connection((parts.hostname or "", parts.port or 80), timeout=30) as connection:
            connection.sendall(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
            time.sleep(seconds)

    def _text(self, session: httpx.Client, body: dict[str, Any]) -> str:
        while True:
            response = session.post("/v1/chat/completions", json=body)
            if response.status_code != 429:
                response.raise_for_status()
                return str(response.json()["choices"][0]["message"]["content"])
            time.sleep(float(response.headers["Retry-After"]) / 10)

    def _streamed(self, session: httpx.Client, body: dict[str, Any]) -> str:
        text = ""
        extra = dict(body.get("diffusion", {})) | {"draft_frames": True}
        whole = body | {"stream": True, "diffusion": extra}
        with session.stream("POST", "/v1/chat/completions", json=whole) as response:
            if response.status_code == 429:
                return self._text(session, body)
            response.raise_for_status()
            for line in response.iter_lines():
                if line.startswith("data: {"):
                    for choice in json.loads(line[6:]).get("choices", ()):
                        text += choice["delta"].get("content") or ""
        return text


def resident(pid: int) -> int:
    """Bytes of memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def metric(url: str, name: str) -> float:
    """One value of /metrics."""
    lines = httpx.get(f"{url}/metrics", timeout=30).text.splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith(f"{name} ")))


def settled(url: str) -> dict[str, float]:
    """What is held when nobody asks any more; waits up to ten seconds for the last to be let go."""
    names = ("gesso_requests_running", "gesso_requests_waiting", "gesso_cache_bytes")
    for _ in range(100):
        held = {name: metric(url, name) for name in names}
        if not any(held.values()):
            break
        time.sleep(0.1)
    return held


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--model", default="mini")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with server("gesso", arguments.model) as (url, pid):
        soak = Soak(url, arguments.model, arguments.seed)
        memory: list[int] = []
        begun = time.monotonic()
        clients = threading.Thread(target=soak.run, args=(arguments.clients, begun + arguments.seconds))
        clients.start()
        while clients.is_alive():
            memory.append(resident(pid))
            clients.join(1.0)
        held = settled(url)
        ready = httpx.get(f"{url}/ready", timeout=30).status_code == 200
        memory.append(resident(pid))
    third = memory[len(memory) // 3 :]
    growth = max(third[len(third) // 2 :]) - max(third[: max(1, len(third) // 2)])
    faults = soak.faults + [f"{name} is {value:g} in the end" for name, value in held.items() if value]
    faults += [] if ready else ["the server is not ready"]
    faults += [f"memory grew by {growth:,} bytes"] if growth > ALLOWED_GROWTH else []
    for fault in faults[:20]:
        print("FAULT", fault)
    report = {
        "benchmark": "soak",
        "seconds": round(time.monotonic() - begun, 1),
        "requests": sum(soak.seen.values()),
        "by_kind": soak.seen,
        "faults": len(faults),
        "memory_bytes": {"start": memory[0], "third": third[0], "end": memory[-1], "growth": growth},
    }
    print(json.dumps(report))
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
