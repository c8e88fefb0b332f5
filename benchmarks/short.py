"""Short answers: a whole canvas, token by token, and `mode: auto`, which chooses.

    python benchmarks/short.py [--tokens 4,8,16] [--steps 12] [--repeats 5]

Random weights of the shape `small` (see `_shapes.py`) with canvases of 256, batch 1, a prompt of 64 tokens. Random
weights never settle, so a canvas is given `--steps`, by default the published model's mean of 12. The three take turns,
so that a slow minute of the machine falls on all. Goals, for at most 16 tokens: `auto` at least 5 times as fast as the
canvas, and never more than a tenth slower than the better of the two. The last line is one line of JSON.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from _shapes import SHAPES, write_checkpoint
from gesso.api import load
from gesso.engine.engine import Engine

PROMPT = list(range(100, 164))
MODES = ("canvas", "ar", "auto")
FASTER, SLOWER = 5.0, 1.1


def seconds(engine: Engine, tokens: int, steps: int, repeats: int) -> dict[str, float]:
    """Median of a whole request by mode, after one of each that warms up."""
    times: dict[str, list[float]] = {mode: [] for mode in MODES}
    for run in range(repeats + 1):
        for mode in MODES:
            started = time.perf_counter()
            engine.generate(
                PROMPT,
                mode=mode,
                max_new_tokens=tokens,
                max_denoising_steps=steps,
                confidence_threshold=0.0,
                ignore_eos=True,
                seed=run,
            )
            times[mode].append(time.perf_counter() - started)
    return {mode: statistics.median(found[1:]) for mode, found in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", default="4,8,16")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write_checkpoint(SHAPES["small"], Path(folder))
        engine = load(folder, "cpu", "float32")
    table = Table("tokens", "canvas", "token by token", "auto", "auto took", "over the canvas", "of the better")
    rows: list[dict[str, Any]] = []
    for tokens in map(int, arguments.tokens.split(",")):
        measured = seconds(engine, tokens, arguments.steps, arguments.repeats)
        chosen = engine.generate(PROMPT, mode="auto", max_new_tokens=tokens, max_denoising_steps=1, ignore_eos=True)
        faster = measured["canvas"] / measured["auto"]
        of_better = measured["auto"] / min(measured["canvas"], measured["ar"])
        rows.append({"tokens": tokens, **measured, "took": chosen.mode, "faster": faster, "of_better": of_better})
        cells = [f"{1e3 * measured[mode]:.0f} ms" for mode in MODES]
        table.add_row(str(tokens), *cells, chosen.mode, f"{faster:.1f}x", f"{of_better:.2f}x")
    console = Console(width=110)
    console.print(table)
    console.print(f"goals: at least {FASTER:g}x over the canvas, at most {SLOWER:g}x of the better")
    met = all(row["faster"] >= FASTER and row["of_better"] <= SLOWER for row in rows)
    print(json.dumps({"benchmark": "short", "steps": arguments.steps, "rows": rows, "met": met}))


if __name__ == "__main__":
    main()
