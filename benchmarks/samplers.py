"""Samplers, schedules and stopping rules beside the published ones: answers right, passes, and what a step costs.

    python benchmarks/samplers.py [-n 100] [--tasks arithmetic,ordering,...,sudoku] [--settings FILE]
                                  [--shape small|vocab] [--steps 8] [--repeats 5] [--threads 2]

Held-out prompts of the bundled models' tasks, the same with the same seeds for every setting, in batches of 8. Right:
Wilson's 95% interval; p is McNemar's exact test against the published sampler, two-sided, for each row by itself.
Passes are all of an answer behind its prompt, commits not. The settings are those below, or the lines of a file, each a
JSON object of options. Then, over random weights of `--shape`, the median time of a denoising step with each sampler,
in turns, beside the published one's. The last line is one line of JSON.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from _shapes import CANVAS, PROMPT, SHAPES, write_checkpoint
from gesso.api import load
from gesso.diffusion.denoise import CanvasState, DenoisingRules, denoise_step
from gesso.diffusion.samplers import SAMPLERS
from gesso.diffusion.stopping.stable_and_confident import StableAndConfident
from gesso.models.loading import load_folder
from gesso.tasks.registry import MINI_SKILLS, TASKS
from gesso.train.evaluate import evaluate_task
from verify import mcnemar

SEED = 0
SETTINGS: list[dict[str, Any]] = [
    {},
    *({"sampler": name} for name in SAMPLERS.names[1:]),
    {"sampler": "confidence", "threshold": 0.5},
    {"sampler": "maskgit", "noise_schedule": "cosine", "max_denoising_steps": 8},
    {"sampler": "discrete_ddim", "max_denoising_steps": 8},
    {"sampler": "planner", "planner": "entropy_bound"},
    {"schedule": "cosine"},
    {"schedule": "geometric"},
    {"stopping": "prophet"},
]
"""The first is what the others are compared with."""


def accuracy(tasks: list[str], settings: list[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """One row for each task and setting."""
    engines = {name: load(name, "cpu", "float32") for name in ("mini", "sudoku")}
    rows: list[dict[str, Any]] = []
    for task in tasks:
        engine, before = engines["sudoku" if task == "sudoku" else "mini"], None
        for options in settings:
            score = evaluate_task(engine, TASKS[task], count, SEED, options)
            wrong = {prompt for prompt, _, _ in score.wrong}
            before = wrong if before is None else before
            rows.append(
                {
                    "task": task,
                    "options": options,
                    "examples": score.examples,
                    "right": score.right,
                    "interval": score.interval,
                    "passes": score.mean_example_steps,
                    "p": mcnemar(len(before - wrong), len(wrong - before)),
                }
            )
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    return rows


def overhead(shape: str, steps: int, repeats: int) -> dict[str, float]:
    """Milliseconds of a step, the median over all repeats, by sampler."""
    with tempfile.TemporaryDirectory(prefix="gesso-bench-") as folder:
        write_checkpoint(SHAPES[shape], Path(folder))
        model = load_folder(Path(folder), device="cpu", dtype=SHAPES[shape].dtype)
    cache = model.new_cache(batch_size=1, max_seq_len=PROMPT + CANVAS)
    model.encode(torch.randint(SHAPES[shape].vocab, (1, PROMPT)), cache)
    times: dict[str, list[float]] = {name: [] for name in SAMPLERS.names}
    for repeat in range(repeats + 1):
        for name, seen in times.items():
            rules = DenoisingRules(steps, sampler=SAMPLERS.make(name, None, {}), stopping=StableAndConfident(steps + 1))
            state = CanvasState(rules, SHAPES[shape].vocab, CANVAS, torch.Generator().manual_seed(repeat))
            for _ in range(steps):
                began = time.perf_counter()
                denoise_step(model, [state], cache)
                seen.extend([time.perf_counter() - began] if repeat else [])  # the first round warms up
    return {name: 1e3 * statistics.median(seen) for name, seen in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", "--examples", type=int, default=100, help="of each task; 0 leaves this part out")
    parser.add_argument("--tasks", default=",".join((*MINI_SKILLS, "sudoku")))
    parser.add_argument("--settings", type=Path, help="a JSON object of options in each line")
    parser.add_argument("--shape", choices=["small", "vocab"], default="small")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=5, help="0 leaves this part out")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    settings = SETTINGS
    if arguments.settings is not None:
        settings = [json.loads(line) for line in arguments.settings.read_text("utf-8").splitlines() if line.strip()]
    console = Console(width=120)
    rows = accuracy(arguments.tasks.split(","), settings, arguments.examples) if arguments.examples else []
    if rows:
        table = Table("task", "options", "right", "95% interval", "passes", "p")
        for row in rows:
            low, high = row["interval"]
            told = " ".join(f"{name}={value}" for name, value in row["options"].items()) or "as published"
            shown = (row["task"], told, str(row["right"]), f"{low:.0%} to {high:.0%}")
            table.add_row(*shown, f"{row['passes']:.1f}", f"{row['p']:.3f}")
        console.print(table)
    times = overhead(arguments.shape, arguments.steps, arguments.repeats) if arguments.repeats else {}
    if times:
        table = Table("sampler", "ms a step", "of the published one's", title=f"random weights, {arguments.shape}")
        for name, took in times.items():
            table.add_row(name, f"{took:.1f}", f"{took / times[SAMPLERS.default]:.3f}")
        console.print(table)
    found = {"benchmark": "samplers", "seed": SEED, "rows": rows, "shape": arguments.shape, "step_ms": times}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
