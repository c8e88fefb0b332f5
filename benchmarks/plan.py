"""Whether the simulation says what servers do: python benchmarks/plan.py [--seconds 40] [--cores 0,1]

1. What a step, a finished canvas and a request cost one server of one thread on one core: by least squares from its
   processor time (with the router's and the client's), for short, long and quick answers, few and many at a time.
2. The steps of every request that is to come: a seed has the same canvases whoever else is there.
3. 1, 2 and 4 servers behind a router, each fixed to a core (the i-th to core i modulo their number), and requests that
   come at random moments; the simulation plays the same requests at the same moments, with servers that share cores.

Ceiling: what the cores could answer with nobody waiting. Goal: throughput, mean and 95th percentile of the time of an
answer within 15%. It ends in one JSON line.
"""

import argparse
import asyncio
import json
import os
import random
import re
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import numpy as np

from _processes import gesso_server, processor_seconds
from gesso.capacity.cost import StepCosts
from gesso.capacity.simulation import Outcome, play
from gesso.capacity.traffic import Arrival

AT_ONCE = 8
GOAL = 0.15
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "short": ("What is {a} + {b}?", {"max_tokens": 16}),
    "long": ("Count from {a} to {b}.", {"max_tokens": 96, "diffusion": {"ignore_eos": True}}),
    "quick": (
        "Count from {a} to {b}.",
        {"max_tokens": 96, "diffusion": {"ignore_eos": True, "max_denoising_steps": 3}},
    ),
}
"""Kinds of requests, which differ in what they spend their time on."""


def request(kind: str, number: int) -> bytes:
    """One request as it goes over the wire; no two have a common beginning that could be stored."""
    draw = random.Random(number)
    text, fields = KINDS[kind]
    first = draw.randrange(10, 500)
    text = text.format(a=first, b=first + draw.randrange(20, 60))
    messages = [{"role": "user", "content": f"{number}: {text}"}]
    body = json.dumps({"model": "mini", "seed": number, "messages": messages, **fields}).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {len(body)}\r\n"
    )
    return f"{head}content-type: application/json\r\n\r\n".encode() + body


async def exchange(url: str, sent: bytes) -> tuple[bytes, bytes]:
    """Sends a request; returns the head and the body of the answer. It costs a fraction of what HTTP libraries do."""
    host, _, port = url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(sent)
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    return head, body


async def ask(url: str, sent: bytes) -> tuple[float, dict[str, Any]]:
    """Returns the seconds that a request took, and the answer."""
    began = time.perf_counter()
    head, body = await exchange(url, sent)
    seconds = time.perf_counter() - began
    assert b" 200 " in head.partition(b"\r\n")[0], (head, body[:300])
    return seconds, json.loads(body)


async def get(url: str, path: str) -> str:
    """Returns what a path holds."""
    sent = f"GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode()
    return (await exchange(url, sent))[1].decode()


async def metrics(url: str) -> dict[str, float]:
    """Reads a server's metrics; those without labels."""
    found = re.findall(r"^gesso_(\w+) (\S+)$", await get(url, "/metrics"), re.MULTILINE)
    return {name: float(value) for name, value in found}


def process(cores: Sequence[int], *arguments: str) -> AbstractContextManager[tuple[str, int]]:
    """A command of gesso with one thread for a pass, on these cores; yields its address and process id."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    return gesso_server(*arguments, environment=environment, cores=cores)


@contextmanager
def fleet(servers: int, cores: Sequence[int]) -> Iterator[tuple[str, list[tuple[str, int]], int]]:
    """Servers behind a router, all on these cores; yields the router's address, theirs with process ids, and its id."""
    with ExitStack() as stack:
        serve = ("serve", "--device", "cpu", "--offline", "--max-num-seqs", str(AT_ONCE), "--max-waiting", "1000")
        each = [stack.enter_context(process([cores[i % len(cores)]], *serve)) for i in range(servers)]
        urls = ",".join(url for url, _ in each)
        url, pid = stack.enter_context(process(cores, "router", "--replicas", urls, "--health-seconds", "2"))
        while json.loads(asyncio.run(get(url, "/ready"))).get("replicas") != servers:
            time.sleep(0.2)
        yield url, each, pid


async def together(url: str, sent: Sequence[bytes], at_once: int) -> list[dict[str, Any]]:
    """Asks all, so many at a time."""
    gate = asyncio.Semaphore(at_once)

    async def one(each: bytes) -> dict[str, Any]:
        async with gate:
            return (await ask(url, each))[1]

    return await asyncio.gather(*map(one, sent))


async def calibrate(url: str, server: tuple[str, int], router: int, requests: int) -> tuple[StepCosts, dict[str, Any]]:
    """Measures one server; returns its costs, and the figures they are from."""
    direct, pid = server
    pids, rows, costs, number = (pid, router, os.getpid()), list[list[float]](), list[float](), 10_000
    await together(url, [request(kind, number + i) for i, kind in enumerate(KINDS)], 1)
    for kind in KINDS:
        for at_once in (1, 4, 8):
            number += 1000
            count = requests * (1 if at_once == 1 else 2) * (2 if kind == "short" else 1)
            sent = [request(kind, number + i) for i in range(count)]
            before, spent = await metrics(direct), sum(map(processor_seconds, pids))
            await together(url, sent, at_once)
            spent = sum(map(processor_seconds, pids)) - spent
            after = await metrics(direct)
            passes, steps, canvases = (
                after[name] - before[name] for name in ("steps_total", "canvas_steps_total", "canvases_total")
            )
            rows.append([passes, steps, canvases - count, count])
            costs.append(spent)
    found = least_squares(np.array(rows), np.array(costs))
    predicted = np.array(rows) @ found
    a_pass, a_canvas, commit, a_request = map(float, found)
    told = {
        "pass_ms": round(1e3 * a_pass, 2),
        "canvas_step_ms": round(1e3 * a_canvas, 2),
        "commit_ms": round(1e3 * commit, 2),
        "request_ms": round(1e3 * a_request, 2),
        "worst_residual": round(float(np.max(np.abs(predicted / np.array(costs) - 1))), 3),
        "passes_steps_commits_requests_seconds": [
            [*map(round, row), round(spent, 2)] for row, spent in zip(rows, costs, strict=True)
        ],
    }
    # Prompts are all about as long, and are a part of what a request costs.
    return StepCosts(lambda n: a_pass + n * a_canvas, 0.0, 32, "measured", block=commit, request=a_request), told


def least_squares(rows: Any, values: Any) -> Any:
    """Solves for costs that are not negative: one that would be is left out."""
    weights = 1 / values  # what counts is the share by which a row is missed
    kept = list(range(rows.shape[1]))
    while True:
        part = np.linalg.lstsq(rows[:, kept] * weights[:, None], values * weights, rcond=None)[0]
        if (part >= 0).all():
            break
        kept.pop(int(np.argmin(part)))
    found = np.zeros(rows.shape[1])
    found[kept] = part
    return found


async def run(url: str, arrivals: Sequence[float], sent: Sequence[bytes]) -> tuple[list[float], float]:
    """Sends each request at its moment; returns the seconds of each, and until the last one was answered."""
    began = time.perf_counter()

    async def one(at: float, each: bytes) -> float:
        await asyncio.sleep(max(0.0, began + at - time.perf_counter()))
        return (await ask(url, each))[0]

    seconds = await asyncio.gather(*map(one, arrivals, sent))
    return list(seconds), time.perf_counter() - began


def compare(took: list[float], whole: float, spent: float, played: Outcome, cores: int) -> dict[str, Any]:
    """What was measured beside what was played; `off` is the share by which the simulation is."""
    ordered = sorted(took)
    measured = {
        "requests_per_second": len(took) / whole,
        "mean_s": statistics.mean(took),
        "p95_s": ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))],
    }
    simulated = {
        "requests_per_second": played.requests / played.seconds,
        "mean_s": played.whole_mean,
        "p95_s": played.whole[1],
    }
    return {
        "requests": len(took),
        "measured": {name: round(value, 3) for name, value in measured.items()},
        "simulated": {name: round(value, 3) for name, value in simulated.items()},
        "off": {name: round(simulated[name] / value - 1, 3) for name, value in measured.items()},
        "processor_seconds": round(spent, 1),
        "simulated_processor_seconds": round(played.utilization * cores * played.seconds, 1),
    }


def measure(
    cores: Sequence[int], seconds: float, load: float, calibration: int, counts: Sequence[int]
) -> dict[str, Any]:
    """Runs all three parts."""
    found: dict[str, Any] = {"cores": len(cores), "load": load}
    os.sched_setaffinity(0, [cores[0]])
    with fleet(1, cores[:1]) as (url, (server,), router):
        costs, found["costs"] = asyncio.run(calibrate(url, server, router, calibration))
        print(f"costs of one server: {found['costs']}", flush=True)
        # As many requests as the longest run may need, with their steps.
        guess = asyncio.run(together(url, [request(kind, 900 + i) for i, kind in enumerate(KINDS)], 1))
        alone = statistics.mean(costs.request + sum(steps(each)) * costs.step(1) for each in guess)
        rates = {count: load * min(count, len(cores)) / alone for count in counts}
        most = max(1, round(seconds * max(rates.values())))
        draw = random.Random(1)
        sent = [request(draw.choice(list(KINDS)), i) for i in range(most)]
        canvases = [steps(each) for each in asyncio.run(together(url, sent, AT_ONCE))]
    print(f"a request alone takes {1e3 * alone:.0f} ms", flush=True)
    os.sched_setaffinity(0, cores)
    for count in counts:
        times, at = list[float](), 0.0
        while (at := at + draw.expovariate(rates[count])) < seconds and len(times) < most:
            times.append(at)
        used = cores[:1] if count == 1 else cores
        os.sched_setaffinity(0, used)
        with fleet(count, used) as (url, servers, router):
            for each, _ in servers:
                asyncio.run(together(each, [request(kind, 5000 + i) for i, kind in enumerate(KINDS)], 1))
            pids = [router, os.getpid(), *(pid for _, pid in servers)]
            before = sum(map(processor_seconds, pids))
            took, whole = asyncio.run(run(url, times, sent))
            spent = sum(map(processor_seconds, pids)) - before
        arrivals = [Arrival(at, 0, each) for at, each in zip(times, canvases, strict=False)]
        played = play(arrivals, costs, count, AT_ONCE, processors=len(used))
        found[f"replicas_{count}"] = compare(took, whole, spent, played, len(used))
        print(f"{count} servers on {len(used)} cores: {found[f'replicas_{count}']}", flush=True)
    off = [abs(value) for count in counts for value in found[f"replicas_{count}"]["off"].values()]
    return {**found, "worst_off": max(off), "within_goal": max(off) <= GOAL}


def steps(answer: dict[str, Any]) -> list[int]:
    """The steps of each canvas of an answer."""
    return [int(each) for each in answer["choices"][0]["diffusion"]["denoising_steps"]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=40.0, help="for which requests come, in each of the runs")
    parser.add_argument("--load", type=float, default=0.6, help="share of what the cores could do one by one")
    parser.add_argument("--calibration", type=int, default=24, help="requests of each kind, one by one")
    parser.add_argument("--replicas", default="1,2,4")
    parser.add_argument("--cores", help="numbers of cores, by commas; the first two that this process may use")
    given = parser.parse_args()
    allowed = sorted(os.sched_getaffinity(0))
    cores = allowed[:2] if given.cores is None else [int(core) for core in given.cores.split(",")]
    counts = [int(count) for count in given.replicas.split(",")]
    found = measure(cores, given.seconds, given.load, given.calibration, counts)
    print(json.dumps({"benchmark": "plan", **found}))


if __name__ == "__main__":
    main()
