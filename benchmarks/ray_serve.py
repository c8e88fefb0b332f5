"""What Ray Serve costs: python benchmarks/ray_serve.py [--requests 24] [--rounds 4] [--only ray]

The same application with one replica under Ray Serve and under `gesso serve`, asked the same prompts with the same
seeds, eight at a time and one by one, in turns: throughput, time to the first block, processor time of all processes
that belong to each, and whether texts are equal. Ceiling: the server alone. What Ray's way has more is its proxy, the
ingress (which is `gesso router`) and the handle between ingress and replica. It ends in one JSON line.

It needs `gesso[ray]`, as `make ray-test` installs it: build/ray/bin/python benchmarks/ray_serve.py
"""

import argparse
import asyncio
import json
import os
import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx

import _processes
from _processes import gesso_server
from router import load

COMMANDS = {"direct": ("serve",), "ray": ("deploy", "--ray")}
AT_ONCE = 8


@contextmanager
def running(*command: str) -> Iterator[tuple[str, int]]:
    """The application, started by one of gesso's commands; yields its address and the id of its first process."""
    with gesso_server(*command, "--device", "cpu", "--offline", "--max-num-seqs", str(AT_ONCE)) as (address, pid):
        url = address.rstrip("/")
        httpx.get(f"{url}/ready", timeout=300).raise_for_status()
        yield url, pid


def tree(pid: int) -> list[int]:
    """A process and all that descend from it (Linux)."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = int(path.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(path.parent.name))
    found = [pid]
    for each in found:
        found += children.get(each, [])
    return found


def processor_seconds(pid: int) -> float:
    """The time that a process and its descendants have computed so far."""
    total = 0.0
    for each in tree(pid):
        with suppress(OSError):  # it has ended
            total += _processes.processor_seconds(each)
    return total


def measure(requests: int, rounds: int, names: list[str]) -> dict[str, Any]:
    """Asks each in turns, so that what else the machine does meets all."""
    key = os.environ.setdefault("GESSO_API_KEY", "benchmark")
    headers = {"Authorization": f"Bearer {key}"}
    throughput, firsts, costs = ({name: list[float]() for name in names} for _ in range(3))
    starting, idle, texts = dict[str, float](), dict[str, float](), dict[str, list[str]]()
    with ExitStack() as stack:
        servers = {}
        for name in names:
            began = time.perf_counter()
            servers[name] = stack.enter_context(running(*COMMANDS[name]))
            starting[name] = time.perf_counter() - began
        for url, _ in servers.values():
            asyncio.run(load(url, headers, range(AT_ONCE), AT_ONCE))
        for name, (_, pid) in servers.items():
            before, began = processor_seconds(pid), time.perf_counter()
            time.sleep(3)
            idle[name] = (processor_seconds(pid) - before) / (time.perf_counter() - began)
        for turn in range(rounds):
            for name in names[:: 1 if turn % 2 else -1]:
                url, pid = servers[name]
                before = processor_seconds(pid)
                seconds, answers = asyncio.run(load(url, headers, range(requests), AT_ONCE))
                assert all(each["ends"] == 1 and not each["errors"] for each in answers)
                throughput[name].append(requests / seconds)
                costs[name].append(1000 * (processor_seconds(pid) - before - idle[name] * seconds) / requests)
                texts[name] = [each["text"] for each in answers]
                _, alone = asyncio.run(load(url, headers, range(8), 1))
                firsts[name] += [each["first"] for each in alone]
    found: dict[str, Any] = {"requests": requests * rounds}
    for name in names:
        found[name] = {
            "requests_per_second": round(statistics.median(throughput[name]), 2),
            "first_block_ms": round(1000 * statistics.median(firsts[name]), 1),
            "cpu_ms_per_request": round(statistics.median(costs[name]), 1),
            "idle_cpu_share": round(idle[name], 3),
            "start_seconds": round(starting[name], 1),
        }
    if len(names) > 1:
        ratios = [b / a for a, b in zip(throughput["direct"], throughput["ray"], strict=True)]
        gaps = [b - a for a, b in zip(sorted(firsts["direct"]), sorted(firsts["ray"]), strict=True)]
        found["throughput_lost"] = round(1 - statistics.median(ratios), 4)
        found["first_block_added_ms"] = round(1000 * statistics.median(gaps), 2)
        found["texts_equal"] = sum(a == b for a, b in zip(texts["direct"], texts["ray"], strict=True)) / requests
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--only", choices=tuple(COMMANDS), help="one of them alone")
    given = parser.parse_args()
    found = measure(given.requests, given.rounds, [given.only] if given.only else list(COMMANDS))
    if "direct" in found:
        print(f"ceiling, gesso serve alone: {found['direct']}")
    if "ray" in found:
        print(f"under Ray Serve: {found['ray']}")
    print(json.dumps({"benchmark": "ray_serve", **found}))


if __name__ == "__main__":
    main()
