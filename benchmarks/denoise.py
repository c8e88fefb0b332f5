"""gesso beside `transformers` on the same random checkpoints, one denoising step at a time.

    python benchmarks/denoise.py [--shape small|vocab|wide|all] [--steps 5] [--runs 1] [--no-compile] [--json]

Prompt 256, canvas 256, batch 1, all cores. Each engine runs in a process of its own (`_engines.py` says what is timed
and how memory is counted); `transformers` runs in the fastest CPU setting that a short trial finds for the shape, and
once more compiled, where a compiler is found.
Printed beside them: the ceiling (the step's arithmetic at this machine's matmul rate in that dtype, its reads at the
machine's bandwidth, the slower of the two) and whether both engines write the same tokens near temperature zero.
The last line is one line of JSON.
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

from _shapes import CANVAS, PROMPT, SHAPES

HERE = Path(__file__).resolve().parent
FIXED_STEPS = 16
"""Steps a canvas is given where tokens a second are stated."""
COMPARED_STEPS = 3
TARGETS = {"small": 4.0, "vocab": 6.5, "wide": 2.2}
"""How many times faster than `transformers` a step must be."""
MEMORY_TARGET = 0.4
"""Of its peak memory over the weights, at most."""


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def child(job: str, **spec: Any) -> dict[str, Any]:
    """One job of `_engines.py` in a fresh process.

    Raises:
        SystemExit: it failed; the message ends with what it last said.
    """
    source = str(HERE.parent / "src")
    path = os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH"))))
    command = [sys.executable, str(HERE / "_engines.py"), json.dumps(spec | {"job": job, "threads": cores()})]
    environment = os.environ | {"PYTHONPATH": path, "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        sys.exit(f"{job} on {spec['shape']} failed ({done.returncode}):\n{done.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def measure(name: str, steps: int, runs: int, compiled: bool, console: Console) -> dict[str, Any]:
    """Everything about one shape. Engines take turns, so that a slow minute of the machine falls on both."""
    shape = SHAPES[name]
    compare = COMPARED_STEPS if shape.dtype == "float32" else 0
    with tempfile.TemporaryDirectory(prefix="gesso-bench-") as folder, console.status("") as status:

        def run(job: str, told: str, **spec: Any) -> dict[str, Any]:
            status.update(f"{name}: {told}")
            return child(job, shape=name, folder=folder, **spec)

        run("checkpoint", "writing a random checkpoint")
        machine = run("machine", "what the machine can do")
        probe = run("probe", "the fastest setting of transformers")
        spec = {"steps": steps, "experts": probe["experts"], "attention": probe["attention"]}
        done: dict[str, list[dict[str, Any]]] = {"gesso": [], "transformers": []}
        for number in range(runs):
            for engine, results in done.items():
                told = f"{engine}, run {number + 1} of {runs}"
                results.append(run(engine, told, compare=0 if number else compare, **spec))
        extra = run("compiled", "transformers, compiled (minutes)", **spec) if compiled else {"error": "not tried"}
        later = run("machine", "what the machine can do, again")
        machine = {key: max(value, later[key]) for key, value in machine.items()}
    ours, theirs = summary(done["gesso"]), summary(done["transformers"])
    ceiling = {
        "gflop_per_step": shape.flops() / 1e9,
        "gb_read_per_step": shape.bytes() / 1e9,
        "machine_gflops": machine["flops"] / 1e9,
        "machine_gb_per_s": machine["bandwidth"] / 1e9,
        "compute_ms": 1e3 * shape.flops() / machine["flops"],
        "read_ms": 1e3 * shape.bytes() / machine["bandwidth"],
    }
    ceiling["step_ms"] = max(ceiling["compute_ms"], ceiling["read_ms"])
    return {
        "shape": name,
        "dtype": shape.dtype,
        "gesso": ours,
        "transformers": theirs | probe,
        "transformers_compiled": extra,
        "ceiling": ceiling,
        "speedup": theirs["step_ms"] / ours["step_ms"],
        "speedup_over_compiled": extra["step_ms"] / ours["step_ms"] if "step_ms" in extra else None,
        "memory_ratio": ours["over_weights_mb"] / theirs["over_weights_mb"],
        "same_tokens": same(done["gesso"][0]["canvases"], done["transformers"][0]["canvases"]) if compare else None,
        "ceiling_reached": ceiling["step_ms"] / ours["step_ms"],
    }


def tokens_per_s(step_ms: float) -> float:
    """Of one canvas that is given `FIXED_STEPS` steps."""
    return CANVAS / (FIXED_STEPS * step_ms / 1e3)


def summary(done: list[dict[str, Any]]) -> dict[str, Any]:
    """The median over the runs of one engine."""
    step_ms = statistics.median(run["step_ms"] for run in done)
    return {
        "step_ms": step_ms,
        "steps_ms": [run["steps_ms"] for run in done],
        "tokens_per_s": tokens_per_s(step_ms),
        "over_weights_mb": statistics.median(run["over_weights_mb"] for run in done),
        "loaded_mb": statistics.median(run["loaded_mb"] for run in done),
        "peak_is_of_steps_alone": all(run["peak_is_of_steps_alone"] for run in done),
    }


def same(ours: list[list[int]], theirs: list[list[int]]) -> list[float]:
    """The share of equal tokens in the argmax canvas of each compared step. Where rounding decides a near tie, all
    later steps of random weights differ: the first steps are the ones to read."""
    steps = zip(ours, theirs, strict=True)
    return [sum(a == b for a, b in zip(left, right, strict=True)) / len(left) for left, right in steps]


def table(results: list[dict[str, Any]]) -> Table:
    out = Table(
        title=f"One denoising step, prompt {PROMPT}, canvas {CANVAS}, batch 1, {cores()} cores", show_lines=True
    )
    out.add_column("shape")
    out.add_column("", min_width=42)
    for heading in ("ms a step", f"tokens/s at {FIXED_STEPS} steps", "MB over the weights"):
        out.add_column(heading, justify="right")
    for r in results:
        ours, theirs, more, ceiling = r["gesso"], r["transformers"], r["transformers_compiled"], r["ceiling"]
        bound = "arithmetic" if ceiling["compute_ms"] >= ceiling["read_ms"] else "bandwidth"
        rows: list[tuple[str, float | None, float | None]] = [
            ("gesso", ours["step_ms"], ours["over_weights_mb"]),
            (
                f"transformers ({theirs['experts']} experts, {theirs['attention']} attention)",
                theirs["step_ms"],
                theirs["over_weights_mb"],
            ),
            (f"transformers, compiled{': ' + more['error'] if 'error' in more else ''}", more.get("step_ms"), None),
            (f"ceiling ({bound})", ceiling["step_ms"], None),
            (f"times faster (goal {TARGETS[r['shape']]}), share of memory (goal {MEMORY_TARGET})", None, None),
        ]
        if r["same_tokens"] is not None:
            shares = ", ".join(f"{share:.1%}" for share in r["same_tokens"])
            rows.append((f"same tokens near temperature zero, by step: {shares}", None, None))
        columns = [
            "\n".join(label for label, _, _ in rows),
            "\n".join("" if ms is None else f"{ms:.1f}" for _, ms, _ in rows[:4]) + f"\n{r['speedup']:.2f}x",
            "\n".join("" if ms is None else f"{tokens_per_s(ms):.1f}" for _, ms, _ in rows[:4]),
            "\n".join("" if mb is None else f"{mb:.0f}" for _, _, mb in rows[:4]) + f"\n{r['memory_ratio']:.2f}",
        ]
        out.add_row(f"{r['shape']}\n{r['dtype']}", *columns)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description="gesso beside transformers, one denoising step at a time")
    parser.add_argument("--shape", choices=[*SHAPES, "all"], default="all")
    parser.add_argument("--steps", type=int, default=5, help="measured steps a run, after one that is not measured")
    parser.add_argument("--runs", type=int, default=1, help="processes per engine; the median counts")
    parser.add_argument("--no-compile", action="store_true", help="leave compiled transformers out: it takes minutes")
    parser.add_argument("--json", action="store_true", help="the JSON line alone")
    options = parser.parse_args()
    if options.steps < 1 or options.runs < 1:
        parser.error("--steps and --runs must be at least 1")
    console = Console(stderr=True, quiet=options.json)
    names = list(SHAPES) if options.shape == "all" else [options.shape]
    results = [measure(name, options.steps, options.runs, not options.no_compile, console) for name in names]
    if not options.json:
        Console(width=None if sys.stdout.isatty() else 130).print(table(results))
    print(json.dumps({"benchmark": "denoise", "cores": cores(), "steps": options.steps, "results": results}))


if __name__ == "__main__":
    main()
