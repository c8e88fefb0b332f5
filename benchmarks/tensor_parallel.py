"""Runs one model over ranks of this machine beside one process: equal tokens, what a rank holds, what a step takes.

    python benchmarks/tensor_parallel.py [--model mini] [--ranks 2,4] [-n 200] [--first 0] [--at-once 8]
        [--steps 24]

Mixed requests, with the same seeds on one process and on each number of ranks: canvases of several widths, token by
token, verified, under a regular expression, a schema and choices, pinned, sampled in several ways, with a prefix in
common. A step is timed on one canvas of the model's own width. The ceiling of N ranks on one CPU is one process with as
many cores: ranks on a CPU show that the parts are right; they speed a model up where each has a GPU. The last line is
one line of JSON.
"""

import argparse
import json
import random
import time
from typing import Any

from rich.console import Console
from rich.table import Table

from gesso.api import load
from gesso.engine.engine import Engine, Request
from gesso.runner.distributed_runner import DistributedRunner
from gesso.tasks.registry import MINI_SKILLS, TASKS

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


def step_ms(engine: Engine, steps: int) -> float:
    """Milliseconds of a denoising step of one whole canvas, the prompt's pass and the commit left out."""
    options = {"max_denoising_steps": steps, "confidence_threshold": 0, "max_new_tokens": engine.config.canvas_length}
    times = []
    for number in (1, steps):
        begin = time.perf_counter()
        engine.generate("Sort: fig, apple", **{**options, "max_denoising_steps": number, "seed": 1, "ignore_eos": True})
        times.append(time.perf_counter() - begin)
    return 1e3 * (times[1] - times[0]) / (steps - 1)


def numbers(engine: Engine) -> int:
    """How many numbers this process holds of the model."""
    return sum(tensor.numel() for tensor in engine.model.state_dict().values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="mini")
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("-n", "--requests", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="number of the first request: 200 may be asked in parts")
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--steps", type=int, default=24)
    given = parser.parse_args()
    asked = requests(given.first + given.requests)[given.first :]
    alone = load(given.model, "cpu")
    expected, whole = answers(alone, asked, given.at_once), numbers(alone)
    step_ms(alone, 2)
    rows: dict[str, dict[str, Any]] = {"1": {"ms_a_step": round(step_ms(alone, given.steps), 2)}}
    for ranks in map(int, given.ranks.split(",")):
        begin = time.perf_counter()
        engine = load(given.model, "cpu", tensor_parallel=ranks)
        runner = engine.runner
        assert isinstance(runner, DistributedRunner)
        row: dict[str, Any] = {"load_seconds": round(time.perf_counter() - begin, 1)}
        found = answers(engine, asked, given.at_once)
        for place, what in enumerate(("equal_tokens", "equal_steps")):
            row[what] = sum(one[place] == other[place] for one, other in zip(found, expected, strict=True))
        row["share_of_numbers"] = round(numbers(engine) / whole, 3)
        step_ms(engine, 2)
        before = runner.group.collectives
        row["ms_a_step"] = round(step_ms(engine, given.steps), 2)
        # Two prompts were encoded, besides the steps of both runs.
        encoding = 2 * (2 * len(engine.config.layers) + 1)
        row["collectives_a_step"] = (runner.group.collectives - before - encoding) / (given.steps + 1)
        runner.close()
        rows[str(ranks)] = row
    table = Table(
        "ranks", "equal tokens", "equal steps", "share of numbers", "collectives a step", "ms a step", "load, s"
    )
    for name, row in rows.items():
        names = ("equal_tokens", "equal_steps", "share_of_numbers", "collectives_a_step", "ms_a_step", "load_seconds")
        table.add_row(name, *(str(row.get(key, "")) for key in names))
    Console().print(table)
    layers = len(alone.config.layers)
    print(
        json.dumps(
            {
                "benchmark": "tensor_parallel",
                "first": given.first,
                "requests": len(asked),
                "layers": layers,
                "ranks": rows,
            }
        )
    )


if __name__ == "__main__":
    main()
