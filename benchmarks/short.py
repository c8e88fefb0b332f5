"""Short answers: a whole canvas, token by token, and `mode: auto`, which chooses.

    python benchmarks/short.py [--tokens 4,8,16] [--steps 12] [--repeats 5] [--no-peer]

Random weights of the shape `small` (see `_shapes.py`) with canvases of 256, batch 1, a prompt of 64 tokens. Random
weights never settle, so a canvas is given `--steps`, by default the published model's mean of 12. Beside them the same
request through `transformers`, which has canvases alone, in the fastest CPU setting that a short trial finds. All take
turns, so that a slow minute of the machine falls on all. Goals, for at most 16 tokens: `auto` at least 5 times as fast
as the canvas, never more than a tenth slower than the better of the two, and 10 times as fast as `transformers`. The
last line is one line of JSON.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from _engines import NEVER, probe, transformers_engine
from _shapes import SHAPES, write_checkpoint
from gesso.api import load
from gesso.engine.engine import Engine

PROMPT = list(range(100, 164))
MODES = ("canvas", "ar", "auto")
FASTER, SLOWER, OVER_PEER = 5.0, 1.1, 10.0
Ask = Callable[[int, int, int], object]
"""A whole request for so many tokens, of so many steps a canvas, with a seed."""


def ours(engine: Engine, mode: str) -> Ask:
    never = {} if mode == "ar" else {"confidence_threshold": 0.0}

    def ask(tokens: int, steps: int, seed: int) -> object:
        return engine.generate(
            PROMPT,
            mode=mode,
            max_new_tokens=tokens,
            max_denoising_steps=steps,
            ignore_eos=True,
            seed=seed,
            **never,
        )

    return ask


def theirs(folder: str) -> Ask:
    found = probe({"shape": "small", "folder": folder})
    model, _ = transformers_engine(Path(folder), "float32", found["experts"], found["attention"])
    prompt = torch.tensor([PROMPT])

    def ask(tokens: int, steps: int, seed: int) -> object:
        torch.manual_seed(seed)
        never = {"confidence_threshold": NEVER, "eos_token_id": None}
        return model.generate(prompt, max_new_tokens=tokens, max_denoising_steps=steps, **never)  # type: ignore[operator]

    return ask


def seconds(asked: Mapping[str, Ask], tokens: int, steps: int, repeats: int) -> dict[str, float]:
    """Median of a whole request by engine and mode, after one of each that warms up."""
    times: dict[str, list[float]] = {name: [] for name in asked}
    for run in range(repeats + 1):
        for name, ask in asked.items():
            started = time.perf_counter()
            ask(tokens, steps, run)
            times[name].append(time.perf_counter() - started)
    return {name: statistics.median(found[1:]) for name, found in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", default="4,8,16")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--no-peer", action="store_true", help="leave transformers out")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write_checkpoint(SHAPES["small"], Path(folder))
        engine = load(folder, "cpu", "float32")
        asked = {mode: ours(engine, mode) for mode in MODES}
        if not arguments.no_peer:
            asked["transformers"] = theirs(folder)
    table = Table("tokens", *asked, "auto took", "over the canvas", "of the better", "over transformers")
    rows: list[dict[str, Any]] = []
    for tokens in map(int, arguments.tokens.split(",")):
        measured = seconds(asked, tokens, arguments.steps, arguments.repeats)
        chosen = engine.generate(PROMPT, mode="auto", max_new_tokens=tokens, max_denoising_steps=1, ignore_eos=True)
        faster = measured["canvas"] / measured["auto"]
        of_better = measured["auto"] / min(measured["canvas"], measured["ar"])
        over_peer = measured["transformers"] / measured["auto"] if "transformers" in measured else None
        rows.append({"tokens": tokens, **measured, "took": chosen.mode, "faster": faster, "of_better": of_better})
        rows[-1] |= {"over_peer": over_peer}
        cells = [f"{1e3 * found:.0f} ms" for found in measured.values()]
        shares = (f"{faster:.1f}x", f"{of_better:.2f}x", "" if over_peer is None else f"{over_peer:.0f}x")
        table.add_row(str(tokens), *cells, chosen.mode, *shares)
    console = Console(width=110)
    console.print(table)
    goals = f"goals: at least {FASTER:g}x over the canvas, at most {SLOWER:g}x of the better"
    console.print(f"{goals}, at least {OVER_PEER:g}x over transformers")
    met = all(row["faster"] >= FASTER and row["of_better"] <= SLOWER for row in rows)
    met = met and all(row["over_peer"] is None or row["over_peer"] >= OVER_PEER for row in rows)
    print(json.dumps({"benchmark": "short", "steps": arguments.steps, "rows": rows, "met": met}))


if __name__ == "__main__":
    main()
