"""Shows what the parts of the published size cost on this CPU: a token, and a denoising step, by processor time.

    python benchmarks/parts.py [--layers 2] [--folder DIR] [--form int4|whole] [--modes ar,canvas] [--dtype auto]
                               [--repeats 15] [--threads 1]

A checkpoint of so many layers with random weights (`_fullsize.py`; the last one sees everything, the others slide) is
written, or taken from `--folder`. Every part's processor time is the median over the repeats, so that it can be
measured beside other work. `of 30` puts the published model together, 25 sliding layers and 5 full ones, beside the
floor: reading its active weights at this machine's rate (a token), or its arithmetic at the rate of its fp32 matmuls (a
step), both with the same threads and in processor time, too. A token goes by the layers' own code here, which has
parts; `fullsize.py` times it as it is written, by one list of compiled steps. The last line is JSON.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from _fullsize import INT4, published_config, write
from gesso.bench.cells import Cell
from gesso.bench.floor import step_work
from gesso.kernels import host
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.hf_config import read_config
from gesso.models.loading import load_folder, stored_quantization
from gesso.models.quantization.plan import replace_layers
from gesso.nn.cpu_threads import decide
from gesso.nn.linear import linear

PARTS = ("attention", "mlp", "experts")
FUSED = ("norm", "add_norm", "add_branches")
"""Kernels of what stands between a layer's products, of all layers together; heads are turned within attention."""
PROMPT, CANVAS, LAYERS, FULL = 32, 256, 30, 5


class Meter:
    """Notes the processor seconds of functions, by name, for one pass after another."""

    def __init__(self) -> None:
        self.now: dict[str, float] = defaultdict(float)
        self.passes: list[dict[str, float]] = []

    def watch(self, owner: Any, attribute: str, name: str) -> None:
        """Puts a function that is measured in the place of one."""
        called = getattr(owner, attribute)

        def measured(*args: Any, **options: Any) -> Any:
            begin = time.process_time()
            result = called(*args, **options)
            self.now[name] += time.process_time() - begin
            return result

        setattr(owner, attribute, measured)

    def take(self) -> None:
        """Ends a pass."""
        self.passes.append(dict(self.now))
        self.now.clear()

    def medians(self) -> dict[str, float]:
        """Returns the milliseconds of every name."""
        names = dict.fromkeys(name for noted in self.passes for name in noted)
        return {name: 1e3 * statistics.median(noted.get(name, 0.0) for noted in self.passes) for name in names}


def best_seconds(work: Callable[[], object], trials: int = 7) -> float:
    """The least processor seconds of a call."""
    best = float("inf")
    for _ in range(trials):
        begin = time.process_time()
        work()
        best = min(best, time.process_time() - begin)
    return best


def rates() -> tuple[float, float]:
    """Bytes read, and operations of fp32 matmuls with a canvas, in a second of a processor."""
    buffer, x, weight = torch.ones(1 << 26), torch.randn(CANVAS, 2816), torch.randn(8192, 2816)
    operations = 2 * CANVAS * weight.numel()
    return buffer.nbytes / best_seconds(buffer.sum), operations / best_seconds(lambda: linear(x, weight))


@torch.inference_mode()
def measure(model: DiffusionGemma, mode: str, repeats: int) -> dict[str, float]:
    """Milliseconds of every part of a token, or of a conditioned step."""
    meter, generator = Meter(), torch.Generator().manual_seed(0)
    layers = len(model.layers)
    for number, kind in ((0, "sliding"), (layers - 1, "full")):
        for part in PARTS:
            meter.watch(model.layers[number].get_submodule(part), "forward", f"{kind} {part}")
        meter.watch(model.layers[number].router, "choose", f"{kind} choice of experts")
        meter.watch(model.layers[number], "forward", kind)
    for kernel in FUSED if host.available() else ():
        meter.watch(import_module("gesso.kernels.host.normed"), kernel, f"all layers {kernel}")
    for block in model.layers:
        meter.watch(block.get_submodule("router.proj"), "forward", "all layers scores of experts")
    meter.watch(model.vocabulary, "predict", "vocabulary")
    width = 1 if mode == "ar" else CANVAS
    model.layers[0].register_forward_hook(lambda *_: None)  # a layer that is observed goes by its own code
    cache = model.new_cache(1, PROMPT + 2 * repeats + CANVAS, CANVAS)
    model.encode(torch.randint(model.config.vocab_size, (1, PROMPT), generator=generator), cache)
    conditioning = torch.randn(width, model.config.hidden_size, generator=generator).to(model.dtype)
    for repeat in range(repeats + 2):
        tokens = torch.randint(model.config.vocab_size, (width,), generator=generator)
        begin = time.process_time()
        if mode == "ar":
            hidden = model.encode_flat(tokens, [1], cache)
        else:
            hidden = model.denoise_flat(tokens, [width], cache, conditioning)
        model.vocabulary.predict(hidden, torch.ones(width), torch.rand(width, generator=generator), mix=mode != "ar")
        meter.now["all"] += time.process_time() - begin
        meter.take()
        if repeat < 2:
            meter.passes.clear()
    return meter.medians()


def whole_model(found: dict[str, float], layers: int) -> float:
    """Milliseconds of thirty layers: what stands beside the layers counts once."""
    beside = found["all"] - (layers - 1) * found["sliding"] - found["full"]
    return beside + (LAYERS - FULL) * found["sliding"] + FULL * found["full"]


def floor_ms(form: str, dtype: torch.dtype, mode: str, read: float, computed: float) -> float:
    """The floor of the published size, from its shapes."""
    with torch.device("meta"):
        model = DiffusionGemma(read_config(published_config(LAYERS))).to(dtype)
    if form == "int4":
        replace_layers(model, INT4)
    work = step_work(model, Cell(PROMPT, 1 if mode == "ar" else CANVAS, 1, "ar" if mode == "ar" else "canvas"), 1)
    return 1e3 * (work.bytes / read if mode == "ar" else work.operations / computed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--folder", type=Path, help="keep the checkpoint here, or use the one that is")
    parser.add_argument("--form", choices=("whole", "int4"), default="int4")
    parser.add_argument("--modes", default="ar,canvas")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    modes = options.modes.split(",")
    if unknown := set(modes) - {"ar", "canvas"}:
        parser.error(f"--modes: {', '.join(sorted(unknown))}; known: ar, canvas")
    if options.layers < 2 or options.repeats < 1 or options.threads < 1:
        parser.error("--layers must be at least 2, --repeats and --threads at least 1")
    decide(options.threads)
    with tempfile.TemporaryDirectory(dir=options.folder and options.folder.parent) as work:
        folder = options.folder or Path(work) / "checkpoint"
        if not (folder / "config.json").exists():
            write(folder, options.layers, options.form)
        model = load_folder(folder, "cpu", options.dtype)
        for tensor in model.state_dict().values():
            tensor.clone()  # weights that are mapped from a file become resident by being read
        read, computed = rates()
        layers, found = len(model.layers), dict[str, Any]()
        form = "whole" if stored_quantization(folder) is None else "int4"
        for mode in modes:
            parts = measure(model, mode, options.repeats if mode == "ar" else max(1, options.repeats // 5))
            whole, floor = whole_model(parts, layers), floor_ms(form, model.dtype, mode, read, computed)
            found[mode] = {"parts_ms": parts, "of_30_ms": whole, "floor_ms": floor, "times_floor": whole / floor}
    for mode, told in found.items():
        table = Table("part", f"{mode}: processor ms")
        for name, spent in told["parts_ms"].items():
            table.add_row(name, f"{spent:.2f}")
        table.add_row("of 30", f"{told['of_30_ms']:.0f}, {told['times_floor']:.2f} times the floor")
        Console(stderr=True).print(table)
    machine = {"dtype": str(model.dtype), "threads": options.threads, "gb_s": read / 1e9, "gflop_s": computed / 1e9}
    print(json.dumps({"benchmark": "parts", "layers": layers, **machine, "modes": found}))


if __name__ == "__main__":
    main()
