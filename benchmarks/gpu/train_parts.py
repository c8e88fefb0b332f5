"""Where a step of the trainer goes on one GPU, and what changes it: waiting for the batch, telling the device, its end.

    python benchmarks/gpu/train_parts.py [--recipe skills-25] [--examples N] [--steps 14] [--device cuda] [--json]

Steps are the trainer's own, with batches from worker processes that differ from step to step, and each setting is
measured twice, in turns; medians are printed in seconds. Settings: as it is; one thread for PyTorch's operations on the
host; with it, rows padded to a multiple of 8,192, so that the allocator and compiled kernels meet fewer sizes; no
garbage collector. `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True` before the command measures the other allocator.
The last line is one line of JSON; the exit code is 2 where there is no GPU.
"""

import argparse
import gc
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

from gesso.bench.machine import describe_machine
from gesso.train import forward
from gesso.train.distributed import ProcessGroup
from gesso.train.objective import DenoisingObjective
from gesso.train.optimizer import make_optimizer, trainable
from gesso.train.recipe import Recipe
from gesso.train.recipes import load_recipe
from gesso.train.step import start_model
from gpu.train import with_examples

PARTS = ("wait", "forward and back", "clip", "optimiser", "device", "step")
WARM_STEPS, ROWS = 6, 8192


@contextmanager
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@contextmanager
def one_thread_and_few_sizes() -> Iterator[None]:
    with one_thread(), mock.patch.object(forward, "ROW_MULTIPLE", ROWS):
        yield


@contextmanager
def no_collector() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


SETTINGS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "as it is": nullcontext,
    "one thread": one_thread,
    "one thread, few sizes": one_thread_and_few_sizes,
    "no collector": no_collector,
}


class Steps:
    """Takes the steps of a run, one after the other."""

    def __init__(self, recipe: Recipe, device: torch.device) -> None:
        self.recipe = recipe
        self.model = start_model(recipe, device)
        self.objective = DenoisingObjective(recipe, self.model, ProcessGroup(device, 0, 1))
        self.optimizer = make_optimizer(self.model, recipe.train)
        self.parameters = [parameter for _, parameter in trainable(self.model, None)]
        self.batches = self.objective.batches(0, recipe.train.steps)

    def take(self) -> list[float]:
        """Takes one; returns the seconds of `PARTS`, the last the whole."""
        times = [time.perf_counter()]
        batch = next(self.batches)
        times.append(time.perf_counter())
        self.optimizer.zero_grad(set_to_none=True)
        measures, _ = self.objective.backward(batch)
        times.append(time.perf_counter())
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, self.recipe.train.gradient_clip)
        times.append(time.perf_counter())
        self.optimizer.step()
        times.append(time.perf_counter())
        torch.cat((measures.to(norm.device), norm.view(1))).cpu()
        times.append(time.perf_counter())
        return [*(after - before for before, after in pairwise(times)), times[-1] - times[0]]

    def medians(self, count: int) -> dict[str, float]:
        rows = [self.take() for _ in range(count)]
        return {
            name: round(statistics.median(column), 4)
            for name, column in zip(PARTS, zip(*rows, strict=True), strict=True)
        }


def memory(device: torch.device) -> dict[str, Any]:
    if device.type != "cuda":
        return {}
    stats = torch.cuda.memory_stats(device)
    return {
        "reserved_gb": round(stats["reserved_bytes.all.peak"] / 1e9, 2),
        "retries": stats["num_alloc_retries"],
        "device_allocations": stats.get("num_device_alloc"),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", default="skills-25")
    parser.add_argument("--examples", type=int, help="of a step; the recipe's as a rule")
    parser.add_argument("--steps", type=int, default=14, help="of each setting, twice")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--json", action="store_true", help="the JSON line alone")
    arguments = parser.parse_args()
    if arguments.device == "cuda" and not torch.cuda.is_available():
        print("no CUDA device here: nothing can be measured (--device cpu --examples 8)", file=sys.stderr)
        return 2
    device, recipe = torch.device(arguments.device), load_recipe(arguments.recipe)
    if arguments.examples:
        recipe = with_examples(recipe, arguments.examples)
    steps = Steps(recipe, device)
    for _ in range(WARM_STEPS):
        steps.take()
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in SETTINGS}
    for _ in range(2):
        for name, setting in SETTINGS.items():
            with setting():
                told = {**steps.medians(arguments.steps), **memory(device)}
            found[name].append(told)
            if not arguments.json:
                print(f"{name:24}", *(f"{part}={value}" for part, value in told.items()), sep="  ", flush=True)
    print(json.dumps({"benchmark": "gpu train parts", "machine": describe_machine(device), "settings": found}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
