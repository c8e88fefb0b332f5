"""What traces cost: python benchmarks/traces.py [--requests 200] [--rounds 4] [--against FOLDER]

The same short requests at a server without traces and at one that sends all of them to a collector here, in turns:
requests a second, and the server's processor time a request, which is steadier where the machine does other things too.
Ceiling: the server without traces. `--against` puts the sources of another version of gesso in the place of the server
with traces, both without: what it costs that they could be asked for. It ends in one JSON line.
"""

import argparse
import asyncio
import json
import os
import re
import statistics
from contextlib import AbstractContextManager, ExitStack, suppress
from pathlib import Path
from typing import Any

from _processes import gesso_server, processor_seconds
from router import load


class Collector:
    """Takes whatever is sent to it, and counts it."""

    def __init__(self) -> None:
        self.bytes = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                found = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
                assert found is not None
                self.bytes += len(await reader.readexactly(int(found[1])))
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        writer.close()


def serving(**environment: str) -> AbstractContextManager[tuple[str, int]]:
    """A server whose environment asks for no other traces than `environment` does; yields its address and process
    id."""
    given = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")} | environment
    return gesso_server("serve", "--device", "cpu", "--offline", environment=given)


async def measure(requests: int, rounds: int, against: Path | None) -> dict[str, Any]:
    """Asks both servers in turns."""
    collector = Collector()
    sink = await asyncio.start_server(collector, "127.0.0.1", 0)
    endpoint = f"http://127.0.0.1:{sink.sockets[0].getsockname()[1]}"
    other = {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint} if against is None else {"PYTHONPATH": str(against)}
    name = "traced" if against is None else "against"
    rates: dict[str, list[float]] = {"plain": [], name: []}
    costs: dict[str, list[float]] = {"plain": [], name: []}
    stack = ExitStack()
    try:
        servers = {
            "plain": await asyncio.to_thread(stack.enter_context, serving()),
            name: await asyncio.to_thread(stack.enter_context, serving(**other)),
        }
        for url, _ in servers.values():
            await load(url, {}, range(16), 8, max_tokens=8)
        for turn in range(rounds):
            for each in list(servers)[:: 1 if turn % 2 else -1]:
                url, pid = servers[each]
                before = processor_seconds(pid)
                seconds, answers = await load(url, {}, range(requests), 8, max_tokens=8)
                assert all(answer["ends"] == 1 for answer in answers)
                rates[each].append(requests / seconds)
                costs[each].append(1000 * (processor_seconds(pid) - before) / requests)
    finally:
        await asyncio.to_thread(stack.close)
        sink.close()
    slower = [b / a for a, b in zip(rates["plain"], rates[name], strict=True)]
    dearer = [b - a for a, b in zip(costs["plain"], costs[name], strict=True)]
    return {
        "requests": requests * rounds,
        "requests_per_second": {each: round(statistics.median(found), 1) for each, found in rates.items()},
        "cpu_ms_per_request": {each: round(statistics.median(found), 3) for each, found in costs.items()},
        "throughput_ratio": round(statistics.median(slower), 4),
        "cpu_ms_added": round(statistics.median(dearer), 3),
        "bytes_per_request": round(collector.bytes / (requests * rounds)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--against", type=Path, help="a folder with another version's sources")
    given = parser.parse_args()
    found = asyncio.run(measure(given.requests, given.rounds, given.against))
    for name, value in found.items():
        print(f"{name:24}{value}")
    print(json.dumps({"benchmark": "traces", **found}))


if __name__ == "__main__":
    main()
