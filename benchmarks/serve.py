"""The server under load, beside `transformers` in a plain FastAPI loop on the same weights.

    python benchmarks/serve.py [--model mini] [--clients 1,2,4,8] [--requests 64] [--no-peer] [--no-second-turn]

Every client is a thread that asks, waits for the whole answer, and asks again, until the requests are used up; they are
the same for all, and all write on past the end of the answer, so that everybody makes the same number of tokens. Each
server runs in a process of its own, on loopback, all cores. Reported:

- tokens a second in all, and percentiles of the seconds a request takes, at each number of clients;
- the ceiling: tokens a second of a bare engine at the same number of requests at once, and with it the share of time
  that HTTP, JSON and the queue cost (the server's overhead);
- draft frames: tokens a second with every step on the wire, beside without;
- the time to the first block of a conversation's second turn, beside that of a cold one of the same length.

The last line is one line of JSON.
"""

import argparse
import json
import os
import statistics
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console
from rich.table import Table

from _processes import python_server

HERE = Path(__file__).resolve().parent
BUDGETS = (32, 64, 96)
"""max_tokens of the requests, in turn."""
PROMPTS = (
    "What is 481 + 296?",
    "Sort: pear, fig, apple, kiwi",
    "Reverse the words: cat bird fish",
    "Count from 3 to 41 separated by commas.",
    "The blue kettle costs 36 euros and is made in Oslo. Give item, price and city as JSON.",
)
CONTEXT_TOKENS = 2000
ROUNDS = 5
FIRST_BLOCK_STEPS = 4
"""Steps of a canvas where the time to the first block is measured: both turns take as many."""
TARGET_SCALING, TARGET_SECOND_TURN, TARGET_OVERHEAD, TARGET_DRAFTS = 2.5, 0.25, 0.05, 0.05


def request(number: int, model: str, *, drafts: bool = False) -> dict[str, Any]:
    """Request `number` of a client: prompts and budgets take turns, the seed is the number."""
    body: dict[str, Any] = {
        "model": model,
        "messages": [{"role": "user", "content": PROMPTS[number % len(PROMPTS)]}],
        "max_tokens": BUDGETS[number % len(BUDGETS)],
        "seed": number,
        "diffusion": {"ignore_eos": True, "verify": 0},
    }
    if drafts:
        body |= {"stream": True, "diffusion": {"ignore_eos": True, "verify": 0, "draft_frames": True}}
    return body


def server(job: str, model: str) -> AbstractContextManager[tuple[str, int]]:
    """A server of `_serving.py` in a fresh process; yields its address and process id."""
    path = os.pathsep.join(filter(None, (str(HERE.parent / "src"), os.environ.get("PYTHONPATH"))))
    environment = os.environ | {"PYTHONPATH": path, "HF_HUB_OFFLINE": "1"}
    return python_server(str(HERE / "_serving.py"), job, model, environment=environment)


def run_clients(clients: int, work: int, answer: Callable[[int], int]) -> dict[str, float]:
    """Let so many clients take requests 0, 1, ... `work` - 1 in turn; `answer` returns a request's tokens."""
    latencies: list[float] = []
    tokens = [0] * clients
    numbers = iter(range(work))
    start = threading.Barrier(clients + 1)

    def client(index: int) -> None:
        start.wait()
        for number in numbers:
            begun = time.monotonic()
            tokens[index] += answer(number)
            latencies.append(time.monotonic() - begun)

    threads = [threading.Thread(target=client, args=(index,)) for index in range(clients)]
    for thread in threads:
        thread.start()
    start.wait()
    begun = time.monotonic()
    for thread in threads:
        thread.join()
    spent = time.monotonic() - begun
    latencies.sort()
    return {
        "tokens_per_second": sum(tokens) / spent,
        "requests": work,
        "p50": statistics.median(latencies),
        "p95": latencies[int(0.95 * (len(latencies) - 1))],
    }


def load(session: httpx.Client, model: str, clients: int, work: int, *, drafts: bool = False) -> dict[str, float]:
    """The requests by HTTP."""
    return run_clients(clients, work, lambda number: ask(session, request(number, model, drafts=drafts)))


def ask(session: httpx.Client, body: dict[str, Any]) -> int:
    """One request; returns the tokens of its answer."""
    if not body.get("stream"):
        response = session.post("/v1/chat/completions", json=body)
        response.raise_for_status()
        return int(response.json()["usage"]["completion_tokens"])
    with session.stream("POST", "/v1/chat/completions", json=body) as response:
        response.raise_for_status()
        for _ in response.iter_raw():
            pass
    return int(body["max_tokens"])


class Bare:
    """A service without HTTP, under the same load."""

    def __init__(self, model: str) -> None:
        from gesso.api import load as load_engine
        from gesso.engine.async_engine import AsyncEngine, Limits

        self.model = model
        self.service = AsyncEngine(load_engine(model, "cpu", offline=True), Limits())
        self.service.start()

    def load(self, clients: int, work: int) -> float:
        """Tokens a second of so many clients."""
        return run_clients(clients, work, self._ask)["tokens_per_second"]

    def _ask(self, number: int) -> int:
        from gesso.engine.engine import Request
        from gesso.engine.events import Event, Finished

        body = request(number, self.model)
        done = threading.Event()
        made = [0]

        def listener(event: Event) -> None:
            if isinstance(event, Finished):
                made[0] = event.result.completion_tokens
                done.set()

        options = {"seed": number, "max_new_tokens": body["max_tokens"], "ignore_eos": True, "verify": 0}
        self.service.submit(Request(body["messages"], options), listener)
        done.wait()
        return made[0]


def second_turn(url: str, model: str, rounds: int = 5) -> dict[str, float]:
    """Median seconds to the first block: of a conversation's second turn, and of an unknown one of that length."""

    def first_block(session: httpx.Client, messages: list[dict[str, str]]) -> float:
        body: dict[str, Any] = {"model": model, "messages": messages, "max_tokens": 16, "seed": 1, "stream": True}
        body["diffusion"] = {"max_denoising_steps": FIRST_BLOCK_STEPS}
        begun = time.monotonic()
        with session.stream("POST", "/v1/chat/completions", json=body) as response:
            response.raise_for_status()
            for line in response.iter_lines():
                if line.startswith("data: {"):
                    delta = json.loads(line[6:])["choices"][0]["delta"]
                    if delta.get("content"):
                        return time.monotonic() - begun
        return time.monotonic() - begun

    cold, warm = [], []
    with httpx.Client(base_url=url, timeout=120) as session:
        for turn in range(rounds):
            words = session.post("/v1/tokenize", json={"model": model, "prompt": f"{turn} fig, "}).json()["count"]
            text = f"{turn} fig, " * (CONTEXT_TOKENS // words)
            first = [{"role": "user", "content": text}]
            cold.append(first_block(session, [*first, {"role": "assistant", "content": "fig"}, *ASK]))
            other = [{"role": "user", "content": "again " + text}]
            first_block(session, other)
            warm.append(first_block(session, [*other, {"role": "assistant", "content": "fig"}, *ASK]))
    return {"cold": statistics.median(cold), "warm": statistics.median(warm)}


ASK = [{"role": "user", "content": "What is 3 + 4?"}]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", default="mini")
    parser.add_argument("--clients", default="1,2,4,8")
    parser.add_argument("--requests", type=int, default=64, help="requests of each measurement")
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--no-second-turn", action="store_true")
    arguments = parser.parse_args()
    counts = [int(part) for part in arguments.clients.split(",")]
    console, report = Console(), {"benchmark": "serve", "model": arguments.model, "requests": arguments.requests}
    table = Table("clients", "gesso tok/s", "p50 s", "p95 s", "bare engine tok/s", "transformers tok/s", "x")

    most, work = max(counts), arguments.requests

    def sweep(session: httpx.Client) -> dict[int, dict[str, float]]:
        load(session, arguments.model, most, most)  # connections, kernels and caches are warm
        return {count: load(session, arguments.model, count, work) for count in counts}

    bare = Bare(arguments.model)
    bare.load(most, most)
    overheads, draft_costs = [], []
    with server("gesso", arguments.model) as (url, _), httpx.Client(base_url=url, timeout=300) as session:
        ours = sweep(session)
        bares = {count: bare.load(count, work) for count in counts}
        # What differs by some percent is measured in turns, on the same work: machines have slow minutes.
        for _ in range(ROUNDS):
            plain = load(session, arguments.model, most, work)["tokens_per_second"]
            overheads.append(1 - plain / bare.load(most, work))
            plain = load(session, arguments.model, most, work)["tokens_per_second"]
            framed = load(session, arguments.model, most, work, drafts=True)["tokens_per_second"]
            draft_costs.append(1 - framed / plain)
        turns = None if arguments.no_second_turn else second_turn(url, arguments.model)
    bare.service.close()
    peer: dict[int, dict[str, float]] = {}
    if not arguments.no_peer:
        with server("transformers", arguments.model) as (url, _), httpx.Client(base_url=url, timeout=300) as session:
            peer = sweep(session)
    for count in counts:
        mine, theirs = ours[count], peer.get(count)
        table.add_row(
            str(count),
            f"{mine['tokens_per_second']:.1f}",
            f"{mine['p50']:.3f}",
            f"{mine['p95']:.3f}",
            f"{bares[count]:.1f}",
            f"{theirs['tokens_per_second']:.1f}" if theirs else "",
            f"{mine['tokens_per_second'] / theirs['tokens_per_second']:.1f}" if theirs else "",
        )
    console.print(table)
    scaling = ours[most]["tokens_per_second"] / ours[min(counts)]["tokens_per_second"]
    overhead, drafts_cost = statistics.median(overheads), statistics.median(draft_costs)
    lines = [
        (f"{most} clients over {min(counts)}", f"{scaling:.2f}x", f"at least {TARGET_SCALING}x"),
        ("overhead of the server", f"{overhead:+.1%}", f"at most {TARGET_OVERHEAD:.0%}"),
        ("cost of draft frames", f"{drafts_cost:+.1%}", f"at most {TARGET_DRAFTS:.0%}"),
    ]
    report |= {"gesso": ours, "bare": bares, "transformers": peer, "scaling": scaling}
    report |= {"overhead": overhead, "overheads": overheads, "drafts_cost": drafts_cost, "drafts_costs": draft_costs}
    if turns:
        share = turns["warm"] / turns["cold"]
        told = f"{share:.1%} ({turns['warm']:.3f} of {turns['cold']:.3f} s)"
        lines.append(("first block of a second turn, of a cold one", told, f"at most {TARGET_SECOND_TURN:.0%}"))
        report["second_turn"] = turns | {"share": share}
    for name, value, target in lines:
        console.print(f"{name}: {value} (goal: {target})")
    print(json.dumps(report))


if __name__ == "__main__":
    main()
