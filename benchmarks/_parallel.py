"""What benchmarks of one model over several processes share: mixed requests, and the comparison with one process."""

import argparse
import json
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from gesso.api import load
from gesso.engine.engine import Engine, Request
from gesso.runner.leading_runner import LeadingRunner
from gesso.tasks.registry import MINI_SKILLS, TASKS

Row = dict[str, Any]
"""Figures by name."""
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
KINDS: tuple[dict[str, Any], ...] = (
    {},
    {"mode": "ar"},
    {"verify": 1},
    {"regex": "[a-z]{3,12}"},
    {"json_schema": SCHEMA},
    {"choices": ["yes", "no", "perhaps"]},
    {"canvas_length": 13},
    {"sampler": "confidence"},
    {"top_k": 40, "top_p": 0.9, "temperature": 1.2},
    {"guidance_scale": 1.5},
)
PREFIX = "The quick brown fox. " * 24


@dataclass(frozen=True, slots=True)
class Work:
    """What an engine is measured with."""

    at_once: int
    """Canvases that run at once."""
    steps: int
    whole: int
    """How many numbers the model has."""


def requests(count: int) -> list[Request]:
    """Requests of all kinds in turn, a third of them with a beginning in common."""
    rng = random.Random(0)
    return [
        Request(
            (PREFIX if i % 3 == 0 else "") + TASKS[rng.choice(MINI_SKILLS)].sample(rng).prompt,
            {"seed": i, "max_new_tokens": rng.choice([6, 20, 32]), **KINDS[i % len(KINDS)]},
        )
        for i in range(count)
    ]


def answers(engine: Engine, asked: list[Request], at_once: int) -> list[tuple[Any, ...]]:
    """Tokens and steps of every request."""
    found = []
    for start in range(0, len(asked), at_once):
        found += engine.generate_batch(asked[start : start + at_once])
    return [(result.token_ids, result.denoising_steps) for result in found]


def numbers(engine: Engine) -> int:
    """How many numbers this process holds of the model."""
    return sum(tensor.numel() for tensor in engine.model.state_dict().values())


def compare(
    description: str | None,
    name: str,
    parts: str,
    counts: str,
    columns: Sequence[str],
    spread: Callable[[str, int], Engine],
    measure: Callable[[Engine, Work], Row],
) -> None:
    """Reads the command line, compares one process with each number of others, and prints a table and a line of JSON.

    Args:
        name: of the benchmark, which `description` describes.
        parts: what the processes are called, in plural.
        counts: how many there are, by default.
        columns: names of figures in the table.
        spread: loads a model over so many processes.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="mini")
    parser.add_argument(f"--{parts}", dest="counts", metavar=parts.upper(), default=counts)
    parser.add_argument("-n", "--requests", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="number of the first request: they may be asked in parts")
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--steps", type=int, default=24)
    given = parser.parse_args()
    asked = requests(given.first + given.requests)[given.first :]
    alone = load(given.model, "cpu")
    expected = answers(alone, asked, given.at_once)
    work = Work(given.at_once, given.steps, numbers(alone))
    rows: dict[str, Row] = {"1": measure(alone, work)}
    for count in map(int, given.counts.split(",")):
        begin = time.perf_counter()
        engine = spread(given.model, count)
        runner = engine.runner
        assert isinstance(runner, LeadingRunner)
        row: Row = {"load_seconds": round(time.perf_counter() - begin, 1)}
        found = answers(engine, asked, given.at_once)
        for place, what in enumerate(("equal_tokens", "equal_steps")):
            row[what] = sum(one[place] == other[place] for one, other in zip(found, expected, strict=True))
        rows[str(count)] = row | measure(engine, work)
        runner.close()
    table = Table(parts, *(column.replace("_", " ") for column in columns))
    for processes, row in rows.items():
        table.add_row(processes, *(str(row.get(column, "")) for column in columns))
    Console().print(table)
    layers = len(alone.config.layers)
    print(json.dumps({"benchmark": name, "first": given.first, "requests": len(asked), "layers": layers, parts: rows}))
