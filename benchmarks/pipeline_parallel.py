"""Runs one model split by its layers beside one process: equal tokens, what a stage holds, stages at work together.

    python benchmarks/pipeline_parallel.py [--model mini] [--stages 2,3] [-n 200] [--at-once 8] [--steps 24]

The mixed requests of `benchmarks/tensor_parallel.py`, with the same seeds on one process and on each number of stages.
`together` is the share of the time in which any stage worked that two of them worked, on different micro-batches, by
the clock that all processes of a machine have in common, over a batch of as many canvases as run at once. The ceiling
of N stages on one CPU is one process with as many cores: what is shown is that the parts are right and work together,
not that anything is faster. The last line is one line of JSON.
"""

import argparse
import json
import time
from itertools import pairwise
from typing import Any

from rich.console import Console
from rich.table import Table

from gesso.api import load
from gesso.engine.engine import Engine, Request
from gesso.runner.pipeline_runner import PipelineRunner
from tensor_parallel import answers, numbers, requests

Times = list[list[tuple[int, int, int]]]


def together(times: Times, first: int) -> float:
    """The share of the time in which any stage worked that two or more did, from a micro-batch on."""
    events = sorted(
        (moment, change)
        for stage in times
        for number, begun, ended in stage
        if number >= first
        for moment, change in ((begun, 1), (ended, -1))
    )
    working = any_ns = more_ns = 0
    for (moment, change), (following, _) in pairwise(events):
        working += change
        any_ns += (following - moment) * (working > 0)
        more_ns += (following - moment) * (working > 1)
    return more_ns / any_ns


def batch_ms(engine: Engine, canvases: int, steps: int) -> float:
    """Milliseconds of a step of several canvases of the model's own width, the prompts' passes included."""
    options = {"confidence_threshold": 0, "max_denoising_steps": steps, "max_new_tokens": engine.config.canvas_length}
    batch = [Request("Sort: fig, apple", {**options, "seed": seed, "ignore_eos": True}) for seed in range(canvases)]
    begin = time.perf_counter()
    engine.generate_batch(batch)
    return 1e3 * (time.perf_counter() - begin) / steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="mini")
    parser.add_argument("--stages", default="2,3")
    parser.add_argument("-n", "--requests", type=int, default=200)
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--steps", type=int, default=24)
    given = parser.parse_args()
    asked = requests(given.requests)
    alone = load(given.model, "cpu")
    expected, whole = answers(alone, asked, given.at_once), numbers(alone)
    rows: dict[str, dict[str, Any]] = {"1": {"ms_a_step": round(batch_ms(alone, given.at_once, given.steps), 2)}}
    for stages in map(int, given.stages.split(",")):
        begin = time.perf_counter()
        engine = load(given.model, "cpu", pipeline_parallel=stages)
        runner = engine.runner
        assert isinstance(runner, PipelineRunner)
        row: dict[str, Any] = {"load_seconds": round(time.perf_counter() - begin, 1)}
        found = answers(engine, asked, given.at_once)
        for place, what in enumerate(("equal_tokens", "equal_steps")):
            row[what] = sum(one[place] == other[place] for one, other in zip(found, expected, strict=True))
        row["layers"] = [len(stage) for stage in runner.stage.stages]
        row["share_of_numbers"] = [round(count / whole, 3) for count in runner.held]
        first = runner.stage.begun
        row["ms_a_step"] = round(batch_ms(engine, given.at_once, given.steps), 2)
        row["together"] = round(together(runner.stage_times, first), 3)
        row["most_under_way"] = runner.stage.most_under_way
        runner.close()
        rows[str(stages)] = row
    names = ("equal_tokens", "equal_steps", "layers", "share_of_numbers", "most_under_way", "together", "ms_a_step")
    table = Table("stages", *(name.replace("_", " ") for name in names))
    for name, row in rows.items():
        table.add_row(name, *(str(row.get(key, "")) for key in names))
    Console().print(table)
    layers = len(alone.config.layers)
    print(json.dumps({"benchmark": "pipeline_parallel", "requests": len(asked), "layers": layers, "stages": rows}))


if __name__ == "__main__":
    main()
