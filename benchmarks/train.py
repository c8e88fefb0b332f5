"""A training step of gesso beside a plain loop around `transformers`: same weights, batch, loss and precision.

    python benchmarks/train.py [--shape small|vocab] [--examples 8] [--steps 3] [--runs 1] [--json]

fp32, all cores, all weights trained; prompts of 32 to 448 tokens, answers of a quarter to a whole canvas of 256. Each
engine runs in a process of its own (`_training.py`); `transformers` with both of its expert implementations that run
on a CPU, of which the faster counts. Printed beside them: the ceiling, which is the step's arithmetic at this machine's
matmul rate. The last line is one line of JSON.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from _shapes import CANVAS, SHAPES
from denoise import child as engine_child
from denoise import cores

HERE = Path(__file__).resolve().parent
SPEED_TARGET, MEMORY_TARGET = 1.5, 0.7
PEER_EXPERTS = ("eager", "grouped_mm")
MEAN_PROMPT = 240
MEAN_ANSWER = CANVAS * 5 // 8


def child(**spec: Any) -> dict[str, Any]:
    """One job of `_training.py` in a fresh process; an engine that fails tells why under `error`."""
    path = os.pathsep.join(filter(None, (str(HERE.parent / "src"), os.environ.get("PYTHONPATH"))))
    command = [sys.executable, str(HERE / "_training.py"), json.dumps(spec | {"threads": cores()})]
    environment = os.environ | {"PYTHONPATH": path, "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["killed"])[-1]}
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def flops(shape: str, examples: int) -> float:
    """Multiplications and additions of one step: forward and backward of both passes, half of a first pass."""
    size = SHAPES[shape]
    a_canvas = size.flops() / CANVAS
    encoder = (MEAN_PROMPT + MEAN_ANSWER) * (a_canvas - 2.0 * 2 * size.vocab * size.hidden)
    scores = 2.0 * MEAN_ANSWER * size.vocab * size.hidden
    return examples * (3 * encoder + 3 * scores + 3.5 * CANVAS * a_canvas)


def best(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The median step of the runs, and the largest memory."""
    return {
        "step_s": statistics.median(run["step_s"] for run in runs),
        "examples_per_s": statistics.median(run["examples_per_s"] for run in runs),
        "over_weights_mb": max(run["over_weights_mb"] for run in runs),
        "losses": runs[0]["losses"],
    }


def measure(shape: str, examples: int, steps: int, runs: int, console: Console) -> dict[str, Any]:
    """Engines take turns, so that a slow minute of the machine falls on all of them."""
    jobs: dict[str, dict[str, Any]] = {
        "gesso": {"job": "gesso", "checkpointing": False},
        "gesso, checkpointing": {"job": "gesso", "checkpointing": True},
        **{f"transformers, {name}": {"job": "transformers", "experts": name} for name in PEER_EXPERTS},
    }
    done: dict[str, list[dict[str, Any]]] = {name: [] for name in jobs}
    errors: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="gesso-bench-") as folder, console.status("") as status:
        status.update("writing a random checkpoint")
        child(job="checkpoint", shape=shape, folder=folder)
        for number in range(runs):
            for name, job in jobs.items():
                status.update(f"{name}, run {number + 1} of {runs}")
                found = child(shape=shape, folder=folder, examples=examples, steps=steps, **job)
                if "error" in found:
                    errors[name] = found["error"]
                else:
                    done[name].append(found)
        status.update("what the machine can do")
        machine = engine_child("machine", shape=shape, folder=folder)
    engines = {name: best(results) for name, results in done.items() if results}
    peers = [name for name in engines if name.startswith("transformers")]
    if "gesso" not in engines or not peers:
        sys.exit(f"nothing to compare: {errors}")
    peer = min(peers, key=lambda name: engines[name]["step_s"])
    ours, theirs = engines["gesso"], engines[peer]
    gap = max(
        abs(a - b) / abs(b)
        for mine, other in zip(ours["losses"], theirs["losses"], strict=True)
        for a, b in zip(mine, other, strict=True)
    )
    return {
        "shape": shape,
        "examples": examples,
        "engines": engines,
        "errors": errors,
        "peer": peer,
        "ceiling_step_s": flops(shape, examples) / machine["flops"],
        "machine_gflops": machine["flops"] / 1e9,
        "speedup": theirs["step_s"] / ours["step_s"],
        "memory_ratio": ours["over_weights_mb"] / theirs["over_weights_mb"],
        "largest_loss_gap": gap,
        "targets": {"speedup": SPEED_TARGET, "memory_ratio": MEMORY_TARGET},
    }


def report(found: dict[str, Any], console: Console) -> None:
    """A table for people."""
    table = Table("", "s a step", "examples/s", "MB over the weights", box=None)
    for name, engine in found["engines"].items():
        table.add_row(
            name, f"{engine['step_s']:.2f}", f"{engine['examples_per_s']:.2f}", f"{engine['over_weights_mb']:,.0f}"
        )
    ceiling = found["ceiling_step_s"]
    table.add_row("ceiling", f"{ceiling:.2f}", f"{found['examples']} a step, {found['machine_gflops']:.0f} GFLOP/s", "")
    console.print(table)
    for name, error in found["errors"].items():
        console.print(f"{name}: {error}", markup=False)
    console.print(
        f"{found['speedup']:.2f}x as fast as {found['peer']} (target {SPEED_TARGET}), "
        f"{found['memory_ratio']:.2f} of its memory (target {MEMORY_TARGET}); "
        f"losses differ by {found['largest_loss_gap']:.1e} at most"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=("small", "vocab"), default="small")
    parser.add_argument("--examples", type=int, default=8)
    parser.add_argument("--steps", type=int, default=3, help="measured steps, after one that warms up")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="the JSON line alone")
    arguments = parser.parse_args()
    if min(arguments.examples, arguments.steps, arguments.runs) < 1:
        parser.error("--examples, --steps and --runs must be at least 1")
    console = Console(stderr=arguments.json, highlight=False)
    found = measure(arguments.shape, arguments.examples, arguments.steps, arguments.runs, console)
    if not arguments.json:
        report(found, console)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
