"""What a denoising step costs with each sampler, beside the published one's. What answers are worth is measured by
`gesso lab benchmarks/samplers.json`.

    python benchmarks/samplers.py [--shape small|vocab] [--steps 8] [--repeats 5] [--threads 2]

Over random weights of `--shape`, the median time of a step, samplers in turns. The last line is one line of JSON.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from _shapes import CANVAS, PROMPT, SHAPES, write_checkpoint
from gesso.diffusion.canvas_state import CanvasState, DenoisingRules
from gesso.diffusion.denoise import denoise_step
from gesso.diffusion.samplers import SAMPLERS
from gesso.diffusion.step import CanvasShape
from gesso.diffusion.stopping.stable_and_confident import StableAndConfident
from gesso.models.loading import load_folder


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
            canvas = CanvasShape(CANVAS, SHAPES[shape].vocab)
            state = CanvasState(rules, canvas, torch.Generator().manual_seed(repeat))
            for _ in range(steps):
                began = time.perf_counter()
                denoise_step(model, [state], cache)
                seen.extend([time.perf_counter() - began] if repeat else [])  # the first round warms up
    return {name: 1e3 * statistics.median(seen) for name, seen in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=["small", "vocab"], default="small")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    times = overhead(arguments.shape, arguments.steps, arguments.repeats)
    table = Table("sampler", "ms a step", "of the published one's", title=f"random weights, {arguments.shape}")
    for name, took in times.items():
        table.add_row(name, f"{took:.1f}", f"{took / times[SAMPLERS.default]:.3f}")
    Console(width=120).print(table)
    print(json.dumps({"benchmark": "samplers", "shape": arguments.shape, "step_ms": times}))


if __name__ == "__main__":
    main()
