"""What has got slower, or larger, since it was last recorded. `make bench` runs this.

    python benchmarks/guard.py [--only denoise,train] [--record] [--json]

The quick form of the benchmarks beside it, each in a process of its own. Compared are ratios, in which the machine
mostly cancels out: times faster than `transformers` in the same run, share of its memory, what a constraint costs. A
ratio is worse when it is off its record in `guard.json` by more than its tolerance; one that looks worse is measured
once more, and the better of the two counts. Exit code 1 where something is worse. `--record` writes what was found as
the new record: do so on a quiet machine, and say in the commit why. The last line is one line of JSON.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

HERE = Path(__file__).resolve().parent
RECORD = HERE / "guard.json"

Ratios = Iterator[tuple[str, float, bool]]
"""Name, value, and whether more is better."""


def _denoise(found: Any) -> Ratios:
    for row in found["results"]:
        yield f"{row['shape']}: times faster than transformers", row["speedup"], True
        yield f"{row['shape']}: share of its memory", row["memory_ratio"], False


def _train(found: Any) -> Ratios:
    yield "times faster than transformers", found["speedup"], True
    yield "share of its memory", found["memory_ratio"], False


def _constrain(found: Any) -> Ratios:
    for row in found["rows"]:
        yield f"step with a constraint, vocabulary {row['vocab']}", row["ratio"], False


def _short(found: Any) -> Ratios:
    for row in found["rows"]:
        yield f"{row['tokens']} tokens: times faster than a whole canvas", row["faster"], True


@dataclass(frozen=True)
class Guarded:
    """One benchmark: its quick form, what is read from its last line, and how far that may be off."""

    command: tuple[str, ...]
    read: Callable[[Any], Ratios]
    tolerance: float


GUARDED = {
    "denoise": Guarded(
        ("denoise.py", "--shape", "small", "--steps", "4", "--runs", "2", "--no-compile", "--json"), _denoise, 0.15
    ),
    "constrain": Guarded(("constrain.py", "--vocab", "4096", "--steps", "6", "--repeats", "3"), _constrain, 0.1),
    "short": Guarded(("short.py", "--tokens", "4,16", "--repeats", "3", "--no-peer"), _short, 0.2),
    "train": Guarded(("train.py", "--examples", "4", "--steps", "2", "--json"), _train, 0.15),
}


Found = dict[str, tuple[float, bool]]
"""By ratio: its value, and whether more is better."""


def measure(name: str) -> Found:
    """Every ratio of a benchmark."""
    guarded = GUARDED[name]
    path = os.pathsep.join(filter(None, (str(HERE.parent / "src"), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, str(HERE / guarded.command[0]), *guarded.command[1:]],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": path},
    )
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        sys.exit(f"{name} failed with exit code {done.returncode}")
    return {f"{name}, {label}": (value, more) for label, value, more in guarded.read(json.loads(lines[-1]))}


def off(found: float, recorded: float, more: bool) -> float:
    """By how much a ratio is worse than recorded; negative where it is better."""
    return recorded / found - 1 if more else found / recorded - 1


def better_of(one: Found, other: Found) -> Found:
    return {key: ((max if more else min)(value, other[key][0]), more) for key, (value, more) in one.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(GUARDED), help="benchmarks, separated by commas")
    parser.add_argument("--record", action="store_true", help="what is found is the new record")
    parser.add_argument("--json", action="store_true", help="the JSON line alone")
    options = parser.parse_args()
    names = options.only.split(",")
    if unknown := sorted(set(names) - set(GUARDED)):
        parser.error(f"no benchmark {', '.join(unknown)}; known: {', '.join(GUARDED)}")
    record: dict[str, float] = json.loads(RECORD.read_text("utf-8")) if RECORD.exists() else {}
    console = Console(stderr=True, quiet=options.json)
    table = Table("ratio", "recorded", "now", "worse by", "may be")
    rows: list[dict[str, Any]] = []
    worse: list[str] = []
    for name in names:
        with console.status(name):
            found = measure(name)
            tolerance = GUARDED[name].tolerance
            if any(off(value, record.get(key, value), more) > tolerance for key, (value, more) in found.items()):
                found = better_of(found, measure(name))
        for key, (value, more) in found.items():
            by = off(value, record[key], more) if key in record else None
            rows.append({"ratio": key, "now": value, "recorded": record.get(key), "worse_by": by})
            if by is not None and by > tolerance:
                worse.append(key)
            told = ("-", "new") if by is None else (f"{record[key]:.2f}", f"{by:+.0%}")
            table.add_row(key, told[0], f"{value:.2f}", told[1], f"{tolerance:.0%}")
    if not options.json:
        Console(width=120).print(table)
    if options.record:
        record |= {row["ratio"]: round(row["now"], 3) for row in rows}
        RECORD.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    for key in worse:
        console.print(f"worse than recorded: {key}", markup=False)
    print(json.dumps({"benchmark": "guard", "rows": rows, "worse": worse}))
    sys.exit(1 if worse and not options.record else 0)


if __name__ == "__main__":
    main()
