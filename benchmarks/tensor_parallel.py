"""Runs one model over ranks of this machine beside one process: equal tokens, what a rank holds, what a step takes.

    python benchmarks/tensor_parallel.py [--model mini] [--ranks 2,4] [-n 200] [--first 0] [--at-once 8]
        [--steps 24]

Mixed requests, with the same seeds on one process and on each number of ranks: canvases of several widths, token by
token, verified, under a regular expression, a schema and choices, pinned, sampled in several ways, with a prefix in
common. A step is timed on one canvas of the model's own width. The ceiling of N ranks on one CPU is one process with as
many cores: ranks on a CPU show that the parts are right; they speed a model up where each has a GPU. The last line is
one line of JSON.
"""

import time

from _parallel import Row, Work, compare
from gesso.api import load
from gesso.engine.engine import Engine
from gesso.runner.distributed_runner import DistributedRunner

COLUMNS = ("equal_tokens", "equal_steps", "share_of_numbers", "collectives_a_step", "ms_a_step", "load_seconds")


def step_ms(engine: Engine, steps: int) -> float:
    """Milliseconds of a denoising step of one whole canvas, the prompt's pass and the commit left out."""
    options = {"max_denoising_steps": steps, "confidence_threshold": 0, "max_new_tokens": engine.config.canvas_length}
    times = []
    for number in (1, steps):
        begin = time.perf_counter()
        engine.generate("Sort: fig, apple", **{**options, "max_denoising_steps": number, "seed": 1, "ignore_eos": True})
        times.append(time.perf_counter() - begin)
    return 1e3 * (times[1] - times[0]) / (steps - 1)


def spread(model: str, ranks: int) -> Engine:
    """The model over ranks."""
    return load(model, "cpu", tensor_parallel=ranks)


def measure(engine: Engine, work: Work) -> Row:
    """What a step of one canvas takes, and over ranks what a rank holds and how many collectives there are."""
    step_ms(engine, 2)
    runner = engine.runner
    if not isinstance(runner, DistributedRunner):
        return {"ms_a_step": round(step_ms(engine, work.steps), 2)}
    before = runner.group.collectives
    took = step_ms(engine, work.steps)
    # Two prompts were encoded, besides the steps of both runs.
    encoding = 2 * (2 * len(engine.config.layers) + 1)
    return {
        "share_of_numbers": round(runner.held[0] / work.whole, 3),
        "ms_a_step": round(took, 2),
        "collectives_a_step": (runner.group.collectives - before - encoding) / (work.steps + 1),
    }


if __name__ == "__main__":
    compare(__doc__, "tensor_parallel", "ranks", "2,4", COLUMNS, spread, measure)
