"""`transformers` on the cells of `gesso bench --peer transformers`: a job on standard input, one JSON line back.

It runs with its own defaults for experts and attention; `denoise.py` looks for its fastest setting. A step is
everything between two canvases, as `_engines.py` has it; the first of a canvas, which comes after an encoding, does not
count where there are others.
"""

import argparse
import json
import statistics
import sys
import time
from typing import Any

import torch
from torch import Tensor

NEVER = 1e-30
"""Nats that no mean entropy is below: canvases then take all their steps."""


class Stopwatch:
    """`generate` hands it the prompt, every step's canvas, and every finished canvas."""

    def __init__(self) -> None:
        self.started = self.last = time.perf_counter()
        self.first_block: float | None = None
        self.steps: list[float] = []
        self.first_steps: list[float] = []
        self._first = True

    def put_draft(self, value: Tensor) -> None:  # noqa: ARG002 - handed over by name
        now = time.perf_counter()
        (self.first_steps if self._first else self.steps).append(now - self.last)
        self.last, self._first = now, False

    def put(self, _value: Tensor) -> None:
        now = time.perf_counter()
        if self.steps or self.first_steps:
            self.first_block = now - self.started if self.first_block is None else self.first_block
        self.last, self._first = now, True

    def end(self) -> None:
        """Nothing to close."""


def spread(values: list[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "low": min(values), "high": max(values)}


def measure(model: Any, cell: dict[str, Any], job: dict[str, Any]) -> dict[str, Any]:
    """The median and the range of the repeats."""
    prompts = torch.tensor(cell["prompts"], device=model.device)
    options: dict[str, Any] = {"max_new_tokens": cell["output"], "eos_token_id": None}
    if job["steps"] is not None:
        options |= {"max_denoising_steps": job["steps"], "confidence_threshold": NEVER}
    first_blocks, steps, speeds, counts = [], [], [], []
    for number in range(job["warmup"] + job["repeats"]):
        torch.manual_seed(1)
        watch = Stopwatch()
        model.generate(prompts, streamer=watch, **options)
        seconds = time.perf_counter() - watch.started
        if number >= job["warmup"]:
            assert watch.first_block is not None
            first_blocks.append(watch.first_block)
            steps.append(1e3 * statistics.median(watch.steps or watch.first_steps))
            speeds.append(cell["batch"] * cell["output"] / seconds)
            counts.append((len(watch.first_steps) + len(watch.steps)) / len(watch.first_steps))
    return {name: cell[name] for name in ("prompt", "output", "batch", "mode")} | {
        "first_block_s": spread(first_blocks),
        "step_ms": spread(steps),
        "steps_per_canvas": statistics.mean(counts),
        "tokens_per_s": spread(speeds),
    }


def read_job() -> dict[str, Any]:
    """The job of standard input; ends the process with one line where there is none."""
    parser = argparse.ArgumentParser(
        description="The part of gesso bench --peer transformers that runs transformers: it reads a job, one JSON "
        "object that gesso bench writes, on standard input, and prints its figures in one JSON line."
    )
    parser.parse_args()
    try:
        if sys.stdin.isatty():
            raise ValueError("a terminal")
        job = json.load(sys.stdin)
        job["cells"], job["folder"]
    except (ValueError, TypeError, KeyError):
        parser.error("standard input holds no job: run gesso bench MODEL --peer transformers")
    return job  # type: ignore[no-any-return]


def main() -> None:
    job = read_job()
    from transformers import DiffusionGemmaForBlockDiffusion

    torch.set_num_threads(job["threads"])
    model = DiffusionGemmaForBlockDiffusion.from_pretrained(job["folder"], dtype=getattr(torch, job["dtype"]))
    model.to(job["device"]).eval()
    print(json.dumps([measure(model, cell, job) for cell in job["cells"]]))


if __name__ == "__main__":
    main()
