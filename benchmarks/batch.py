"""What `kill -9` costs a batch: python benchmarks/batch.py [--lines 160] [--kills 20] [--workers 2]

The same file of requests is answered once undisturbed, and once by a command that is killed at random moments, while it
loads, asks and writes, and started again, until it ends by itself. Counted are ids that are missing or there twice, and
texts that differ. Ceiling: the undisturbed run. It ends in one JSON line.
"""

import argparse
import collections
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

QUESTIONS = ("What is {} + 296?", "Sort {}, 3, 9 and 1.", "Count from 1 to {}.", "What is {} - 7?")


def requests(lines: int) -> str:
    """Requests to two endpoints, each with a seed of its own."""
    rows = []
    for number in range(lines):
        text = QUESTIONS[number % len(QUESTIONS)].format(number + 11)
        body: dict[str, Any] = {"model": "mini", "seed": number, "max_tokens": 32}
        if number % 5 == 4:
            body |= {"prompt": text}
            url = "/v1/completions"
        else:
            body |= {"messages": [{"role": "user", "content": text}]}
            url = "/v1/chat/completions"
        rows.append(json.dumps({"custom_id": f"line-{number}", "method": "POST", "url": url, "body": body}))
    return "".join(f"{row}\n" for row in rows)


def start(source: Path, out: Path, workers: int) -> "subprocess.Popen[bytes]":
    """The command."""
    command = [sys.executable, "-m", "gesso", "batch", str(source), "--out", str(out), "--workers", str(workers)]
    return subprocess.Popen(
        [*command, "--device", "cpu", "--offline"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def texts(out: Path) -> list[tuple[str, Any]]:
    """The id and the text of every whole line, as they stand there."""
    found = []
    for line in out.read_bytes().splitlines():
        row = json.loads(line)
        (choice,) = row["response"]["body"]["choices"]
        found.append((row["custom_id"], choice["text"] if "text" in choice else choice["message"]["content"]))
    return found


def size(file: Path) -> int:
    """Bytes; 0 where there is no file."""
    return file.stat().st_size if file.exists() else 0


def first_line(process: "subprocess.Popen[bytes]", out: Path) -> float:
    """Waits until the file grows; returns the seconds."""
    began, before = time.perf_counter(), size(out)
    while size(out) == before and process.poll() is None:
        time.sleep(0.01)
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=160)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    draw = random.Random(7)
    with tempfile.TemporaryDirectory() as folder:
        source, plain, out = (Path(folder) / name for name in ("in.jsonl", "plain.jsonl", "out.jsonl"))
        source.write_text(requests(given.lines))
        began = time.perf_counter()
        process = start(source, plain, given.workers)
        loading = first_line(process, plain)
        assert process.wait() == 0
        undisturbed = time.perf_counter() - began
        print(f"undisturbed: {undisturbed:.1f} s, {loading:.1f} s of them to the first line", flush=True)

        torn, at = 0, collections.Counter[str]()
        began, killed = time.perf_counter(), 0
        while killed < given.kills:
            process = start(source, out, given.workers)
            if killed % 2:
                # Anywhere from its first moment on: it loads, for the most part.
                time.sleep(draw.uniform(0.0, loading))
            else:
                first_line(process, out)
                time.sleep(draw.uniform(0.0, 0.4))
            process.send_signal(signal.SIGKILL)
            if process.wait() == 0:
                break  # it had ended already
            at["answering" if killed % 2 == 0 else "loading"] += 1
            killed += 1
            torn += bool(size(out)) and not out.read_bytes().endswith(b"\n")
        left = given.lines - (out.read_bytes().count(b"\n") if out.exists() else 0)
        assert start(source, out, given.workers).wait() == 0
        disturbed = time.perf_counter() - began

        expected, got = dict(texts(plain)), texts(out)
        counts = collections.Counter(name for name, _ in got)
    found = {
        "lines": given.lines,
        "workers": given.workers,
        "kills": killed,
        "kills_while": dict(at),
        "torn_lines": torn,
        "left_after_the_last_kill": left,
        "missing": sum(name not in counts for name in expected),
        "twice": sum(count > 1 for count in counts.values()),
        "texts_equal": sum(expected.get(name) == text for name, text in got),
        "undisturbed_seconds": round(undisturbed, 1),
        "with_kills_seconds": round(disturbed, 1),
    }
    print(json.dumps({"benchmark": "batch", **found}))


if __name__ == "__main__":
    main()
