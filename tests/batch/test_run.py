"""Workers and their writer, whatever goes wrong, and processes that are killed."""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import gesso
from gesso.batch.lines import Answer, BatchRequest, Problem
from gesso.batch.run import run_batch

REQUESTS = [BatchRequest(number, f"c{number}", "/v1/x", {"n": number}) for number in range(1, 21)]


async def answer(request: BatchRequest) -> Answer:
    await asyncio.sleep(0)
    return Answer(200, "r", request.body)


def written(groups: list[list[str]]) -> list[int]:
    return sorted(int(json.loads(line)["custom_id"][1:]) for group in groups for line in group)


@pytest.mark.parametrize("workers", [1, 3, 50])
def test_every_line_is_answered_once(workers: int) -> None:
    groups: list[list[str]] = []
    asyncio.run(run_batch(REQUESTS, str, answer, lambda lines: groups.append(list(lines)), workers))
    assert written(groups) == list(range(1, 21))


def test_others_go_on_while_a_line_is_read() -> None:
    """From a slow disk, or behind many that are answered."""
    asked = threading.Event()

    def slow() -> Iterator[BatchRequest]:
        yield REQUESTS[0]
        assert asked.wait(5), "nobody asked the first line while the second was read"
        yield REQUESTS[1]

    async def ask(request: BatchRequest) -> Answer:
        await asyncio.sleep(0.05)  # until the second is being read
        asked.set()
        return await answer(request)

    groups: list[list[str]] = []
    asyncio.run(run_batch(slow(), str, ask, lambda lines: groups.append(list(lines)), 2))
    assert written(groups) == [1, 2]


def test_a_bad_line_is_not_asked() -> None:
    async def never(request: BatchRequest) -> Answer:
        raise AssertionError

    groups: list[list[str]] = []
    bad = BatchRequest(3, None, problem=Problem("invalid_json_line", "line 3: is no JSON"))
    asyncio.run(run_batch([bad], lambda number: f"id{number}", never, lambda lines: groups.append(list(lines)), 1))
    (line,) = groups[0]
    assert json.loads(line)["id"] == "id3"
    assert json.loads(line)["error"] == {"code": "invalid_json_line", "message": "line 3: is no JSON"}


def test_what_is_answered_is_written_before_a_failure_ends_the_run() -> None:
    async def ask(request: BatchRequest) -> Answer:
        if request.number == 8:
            raise RuntimeError("gone")
        return await answer(request)

    groups: list[list[str]] = []
    with pytest.raises(RuntimeError, match="gone"):
        asyncio.run(run_batch(REQUESTS, str, ask, lambda lines: groups.append(list(lines)), 1))
    assert written(groups) == list(range(1, 8))


@pytest.mark.parametrize("fails_at", [1, 2, 20])
def test_a_full_disk_ends_the_run(fails_at: int) -> None:
    count = 0

    def write(lines: Sequence[str]) -> None:
        nonlocal count
        count += len(lines)
        if count >= fails_at:
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        asyncio.run(run_batch(REQUESTS, str, answer, write, 2))


def test_a_cancelled_run_writes_what_is_answered() -> None:
    groups: list[list[str]] = []

    async def run() -> None:
        reached = asyncio.Event()

        async def ask(request: BatchRequest) -> Answer:
            if request.number > 5:
                reached.set()
                await asyncio.Event().wait()
            return await answer(request)

        task = asyncio.create_task(run_batch(REQUESTS, str, ask, lambda lines: groups.append(list(lines)), 2))
        await reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert written(groups) == [1, 2, 3, 4, 5]


def test_a_cancelled_run_writes_what_is_answered_while_the_disk_is_slow() -> None:
    groups: list[list[str]] = []
    answers: list[int] = []

    async def run() -> None:
        async def ask(request: BatchRequest) -> Answer:
            answers.append(request.number)
            return await answer(request)

        def write(lines: Sequence[str]) -> None:
            time.sleep(0.3)
            groups.append(list(lines))

        task = asyncio.create_task(run_batch(REQUESTS, str, ask, write, 4))
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert 0 < len(answers) < len(REQUESTS)
    assert sorted(written(groups)) == sorted(answers)


CHILD = """
import asyncio, hashlib, sys
from pathlib import Path
from gesso.batch.journal import Journal
from gesso.batch.lines import Answer, requests_of, scan
from gesso.batch.run import run_batch

async def ask(request):
    await asyncio.sleep(0.002)
    text = hashlib.sha256(str(request.body["seed"]).encode()).hexdigest()
    return Answer(200, "r", {"text": text * 40})

source, out = map(Path, sys.argv[1:])
scanned = scan(source)
with Journal(out, {"input": scanned.sha256}) as journal:
    left = (r for r in requests_of(source) if scanned.identity(r.number) not in journal.done)
    asyncio.run(run_batch(left, scanned.identity, ask, journal.append, 2))
"""


def test_kills_at_random_moments_cost_nothing(tmp_path: Path) -> None:
    """`kill -9` a few times behind some whole lines; then every id is there once, and all texts as undisturbed."""
    source, out, whole = tmp_path / "in.jsonl", tmp_path / "out.jsonl", tmp_path / "whole.jsonl"
    source.write_text(
        "".join(
            json.dumps({"custom_id": f"c{n}", "method": "POST", "url": "/v1/x", "body": {"seed": n}}) + "\n"
            for n in range(150)
        )
    )
    root = str(Path(gesso.__file__).parents[1])
    command = [sys.executable, "-c", CHILD, str(source)]
    environment = {**os.environ, "PYTHONPATH": root}
    draw = random.Random(5)
    for _ in range(3):
        before = out.stat().st_size if out.exists() else 0
        wanted = before + draw.randrange(1, 40_000)
        child = subprocess.Popen([*command, str(out)], env=environment)
        while child.poll() is None and (not out.exists() or out.stat().st_size < wanted):
            pass
        child.send_signal(signal.SIGKILL)
        child.wait()
    for file in (out, whole):
        subprocess.run([*command, str(file)], env=environment, check=True)

    def lines(file: Path) -> list[str]:
        return sorted(file.read_text().splitlines())

    assert lines(out) == lines(whole)
    assert len(lines(out)) == 150
