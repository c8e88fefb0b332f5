"""How fast one GPU trains a recipe of a small model, by the examples of a step, and whether its losses are the CPU's.

    python benchmarks/gpu/train.py [--recipe skills-25] [--examples 512,1024,2048] [--seconds 20] [--canvases]
                                   [--device cuda] [--profile] [--json]

What the recipe trains, the causal pass alone as a rule, with `--canvases` both passes over canvases of the model's
width, through the trainer itself: batches from worker processes, checkpoints left out. The first figure compares the
loss of one small batch and the norm of its gradient with those of a CPU: in float32 with the weights that the recipe
starts from, in bfloat16 with random ones. `--profile` names the kernels that a step spends its time in. The last line
is one line of JSON; the exit code is 1 where losses differ, 2 where there is no GPU.
"""

import argparse
import dataclasses
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

from gesso.bench.machine import describe_machine
from gesso.train.config import Precision
from gesso.train.distributed import ProcessGroup
from gesso.train.objective import DenoisingObjective
from gesso.train.optimizer import make_optimizer
from gesso.train.recipe import Recipe
from gesso.train.recipes import load_recipe
from gesso.train.records import Record, TrainingCallback
from gesso.train.step import start_model, step_batch
from gesso.train.trainer import train

NEAR: dict[Precision, float] = {"float32": 1e-3, "bfloat16": 0.05}
"""By how much a loss or a norm may differ, as a share."""
COMPARED = 16
"""Examples of the batch that is compared."""


def with_examples(recipe: Recipe, examples: int, **changes: Any) -> Recipe:
    train = dataclasses.replace(recipe.train, causal_batch_size=examples, batch_size=examples, **changes)
    return dataclasses.replace(recipe, train=train)


def with_canvases(recipe: Recipe) -> Recipe:
    train = dataclasses.replace(recipe.train, causal_steps=0, causal_share=0.0, narrow=(), denoiser_loss_weight=1.0)
    return dataclasses.replace(recipe, train=train)


def loss_and_norm(recipe: Recipe, device: torch.device, precision: Precision) -> tuple[float, float]:
    """The losses of the recipe's first step, and the norm of all gradients."""
    recipe = with_examples(recipe, COMPARED, precision=precision)
    group = ProcessGroup(device, 0, 1)
    model = start_model(recipe, device)
    measures, _ = DenoisingObjective(recipe, model, group).backward(step_batch(recipe, 0))
    norms = [p.grad.float().norm() for p in model.parameters() if p.grad is not None]
    return float(measures.sum()), float(torch.stack(norms).norm())


def untrained(recipe: Recipe) -> Recipe:
    """The recipe with random weights, where it can do without others.

    With weights that have learned their data, each token's gradient is 1 - p of a share p near 1, and its relative
    error the absolute one of scores, of which bfloat16 keeps eight bits: on a CPU 0.10 of `skills-12`'s norm, beside
    0.007 with random weights.
    """
    return dataclasses.replace(recipe, start=None) if recipe.adapter is None and recipe.distill is None else recipe


def compare(recipe: Recipe, device: torch.device) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for precision, near in NEAR.items():
        compared = recipe if precision == "float32" else untrained(recipe)
        expected = loss_and_norm(compared, torch.device("cpu"), "float32")
        got = loss_and_norm(compared, device, precision)
        errors = [abs(a - b) / b for a, b in zip(got, expected, strict=True)]
        right = all(error <= near for error in errors)
        found[precision] = {"cpu": expected, "loss_and_norm": got, "errors": errors, "right": right}
    return found


class _Timed(TrainingCallback):
    """Keeps what the trainer reports."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def stepped(self, step: int, record: Record | None) -> None:
        del step
        if record is not None:
            self.records.append(record)


def timed(recipe: Recipe, examples: int, device: torch.device, seconds: float) -> dict[str, Any]:
    recipe = with_examples(recipe, examples, log_every=10, checkpoint_every=1 << 30)
    kept, ends = _Timed(), time.monotonic() + seconds
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    with tempfile.TemporaryDirectory() as out:
        train(recipe, Path(out), device=str(device), should_stop=lambda: time.monotonic() > ends, callback=kept)
    rates = [record.tokens_per_second for record in kept.records[1:]]
    peak = torch.cuda.max_memory_allocated(device) / 1e9 if device.type == "cuda" else None
    told = {"steps": 10 * len(kept.records), "tokens_per_s": max(rates, default=None), "peak_gb": peak}
    if len(kept.records) > 1:
        told["step_s"] = (kept.records[-1].seconds - kept.records[0].seconds) / (10 * (len(kept.records) - 1))
    return told


def profiled(recipe: Recipe, examples: int, device: torch.device) -> str:
    """A table of the kernels of one step, behind three that are not counted."""
    recipe = with_examples(recipe, examples)
    model = start_model(recipe, device)
    optimizer = make_optimizer(model, recipe.train)
    objective = DenoisingObjective(recipe, model, ProcessGroup(device, 0, 1))

    def step(number: int) -> None:
        optimizer.zero_grad(set_to_none=True)
        objective.backward(step_batch(recipe, number))
        optimizer.step()

    for number in range(3):
        step(number)
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities if device.type == "cuda" else activities[:1]) as profile:
        step(3)
    by = "self_cuda_time_total" if device.type == "cuda" else "self_cpu_time_total"
    return str(profile.key_averages().table(sort_by=by, row_limit=25, max_name_column_width=60))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", default="skills-25")
    parser.add_argument("--examples", default="512,1024,2048")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--canvases", action="store_true", help="both passes, not the causal one alone")
    parser.add_argument("--profile", action="store_true", help="name the kernels of a step")
    parser.add_argument("--json", action="store_true", help="the JSON line alone")
    arguments = parser.parse_args()
    if arguments.device == "cuda" and not torch.cuda.is_available():
        print("no CUDA device here: nothing can be measured (train.py --device cpu --examples 8)", file=sys.stderr)
        return 2
    device, recipe = torch.device(arguments.device), load_recipe(arguments.recipe)
    recipe = with_canvases(recipe) if arguments.canvases else recipe
    compared = compare(recipe, device)
    found: dict[str, Any] = {"compared": compared}
    if not arguments.json:
        print("compared", *(f"{name}={told}" for name, told in compared.items()), sep="  ", flush=True)
    for examples in map(int, arguments.examples.split(",")):
        found[str(examples)] = told = timed(recipe, examples, device, arguments.seconds)
        if not arguments.json:
            print(examples, *(f"{name}={value}" for name, value in told.items()), sep="  ", flush=True)
    if arguments.profile:
        print(profiled(recipe, int(arguments.examples.split(",")[-1]), device))
    print(json.dumps({"benchmark": "gpu train", "machine": describe_machine(device), **found}))
    return 0 if all(compared[precision]["right"] for precision in NEAR) else 1


if __name__ == "__main__":
    sys.exit(main())
