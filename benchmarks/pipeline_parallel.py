"""Runs one model split by its layers beside one process: equal tokens, what a stage holds, stages at work together.

    python benchmarks/pipeline_parallel.py [--model mini] [--stages 2,3] [-n 200] [--first 0] [--at-once 8]
        [--steps 24]

The mixed requests of `benchmarks/tensor_parallel.py`, with the same seeds on one process and on each number of stages.
`together` is the share of the time in which any stage worked that two of them worked, on different micro-batches, by
the clock that all processes of a machine have in common, over a batch of as many canvases as run at once. The ceiling
of N stages on one CPU is one process with as many cores: what is shown is that the parts are right and work together,
not that anything is faster. The last line is one line of JSON.
"""

import time
from itertools import pairwise

from _parallel import Row, Work, compare
from gesso.api import load
from gesso.engine.engine import Engine, Request
from gesso.runner.pipeline_runner import PipelineRunner

COLUMNS = ("equal_tokens", "equal_steps", "layers", "share_of_numbers", "most_under_way", "together", "ms_a_step")
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


def spread(model: str, stages: int) -> Engine:
    """The model in stages."""
    return load(model, "cpu", pipeline_parallel=stages)


def measure(engine: Engine, work: Work) -> Row:
    """What a step of as many canvases as run at once takes, and how the stages share it."""
    runner = engine.runner
    if not isinstance(runner, PipelineRunner):
        return {"ms_a_step": round(batch_ms(engine, work.at_once, work.steps), 2)}
    first = runner.stage.begun
    return {
        "layers": [len(stage) for stage in runner.stage.stages],
        "share_of_numbers": [round(count / work.whole, 3) for count in runner.held],
        "ms_a_step": round(batch_ms(engine, work.at_once, work.steps), 2),
        "together": round(together(runner.stage_times, first), 3),
        "most_under_way": runner.stage.most_under_way,
    }


if __name__ == "__main__":
    compare(__doc__, "pipeline_parallel", "stages", "2,3", COLUMNS, spread, measure)
