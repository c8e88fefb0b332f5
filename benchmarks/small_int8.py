"""Times a denoising step of a small model in int8 beside fp32, on one thread, and shows the parts of both.

    python benchmarks/small_int8.py [--model mini] [--canvas N] [--prompt 64] [--repeats 40] [--goal 1.3]

The model is quantized as `gesso quantize --to int8` does. A step is a pass over a conditioned canvas behind a prompt
(of the model's own canvas length, or `--canvas`), and the pass over the vocabulary. Both kinds take turns, and the best
processor time of each counts, so that it can be measured beside other work. The parts are measured in rounds of their
own, of the layers' own code in the place of compiled steps, whose clocks cost some microseconds a call: `products` are
calls of matmuls, and `rounding` and `kernels` are within them. The ceiling is the step without any product. The last
line is JSON.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from gesso.kernels.host import packed
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.hub import resolve
from gesso.models.loading import load_folder
from gesso.models.quantization.convert import quantize_folder
from gesso.models.quantization.plan import Quantization
from gesso.nn import linear, vocabulary
from gesso.nn.cpu_threads import decide
from gesso.nn.norm import RMSNorm
from gesso.nn.quant.integer import Int8
from parts import Meter

Step = Callable[[], object]


@torch.inference_mode()
def make_step(model: DiffusionGemma, canvas: int, prompt: int) -> Step:
    """A step of a conditioned canvas behind a prompt."""
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(model.config.vocab_size, (prompt + canvas,), generator=generator)
    cache = model.new_cache(1, prompt + canvas, max(prompt, canvas))
    model.encode_flat(tokens[:prompt], [prompt], cache)
    conditioning = torch.randn(canvas, model.config.hidden_size, generator=generator)
    ones = torch.ones(canvas)

    @torch.inference_mode()
    def step() -> object:
        hidden = model.denoise_flat(tokens[prompt:], [canvas], cache, conditioning)
        return model.vocabulary.predict(hidden, ones, ones / 2)

    return step


def best_ms(steps: dict[str, Step], repeats: int) -> dict[str, float]:
    """The best processor milliseconds of a step; the kinds take turns."""
    best = dict.fromkeys(steps, float("inf"))
    for _ in range(repeats):
        for name, step in steps.items():
            begin = time.process_time()
            step()
            best[name] = min(best[name], time.process_time() - begin)
    return {name: 1e3 * seconds for name, seconds in best.items()}


def parts_ms(model: DiffusionGemma, step: Step, repeats: int) -> dict[str, float]:
    """Median processor milliseconds of the parts of a step."""
    meter = Meter()
    for block in model.layers:
        for name in ("attention", "mlp", "router", "experts"):
            meter.watch(block.get_submodule(name), "forward", name)
    for module in model.modules():
        if isinstance(module, RMSNorm):
            meter.watch(module, "forward", "norms (of all parts)")
    meter.watch(model.self_conditioning, "forward", "self-conditioning")
    meter.watch(model.vocabulary, "predict", "vocabulary")
    for _ in range(repeats):
        begin = time.process_time()
        step()
        meter.now["all"] += time.process_time() - begin
        meter.take()
    return meter.medians()


def products_ms(step: Step, repeats: int) -> dict[str, float]:
    """Median processor milliseconds of matmuls, and of the two halves of packed ones, each in rounds of its own."""
    watched = {
        "products": [
            (linear, "linear"),
            (vocabulary, "linear"),
            (packed, "matmul"),
            (packed, "matmul_several"),
            (packed, "matmul_chosen"),
        ],
        "rounding": [(packed, "round_rows")],
        "kernels": [(packed, "multiply")],
    }
    found = {}
    for name, places in watched.items():
        kept = [(owner, attribute, getattr(owner, attribute)) for owner, attribute in places]
        meter, depth = Meter(), [0]
        for owner, attribute, called in kept:
            setattr(owner, attribute, _outermost(called, meter, name, depth))
        for _ in range(repeats):
            step()
            meter.take()
        for owner, attribute, called in kept:
            setattr(owner, attribute, called)
        found[name] = statistics.median(1e3 * noted.get(name, 0.0) for noted in meter.passes)
    return found


def _outermost(called: Callable[..., Any], meter: Meter, name: str, depth: list[int]) -> Callable[..., Any]:
    """A function that is measured, where it is not called by another that is."""

    def measured(*args: Any, **options: Any) -> Any:
        depth[0] += 1
        begin = time.process_time()
        result = called(*args, **options)
        depth[0] -= 1
        if not depth[0]:
            meter.now[name] += time.process_time() - begin
        return result

    return measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="mini")
    parser.add_argument("--canvas", type=int, help="tokens; the model's own canvas length without it")
    parser.add_argument("--prompt", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--goal", type=float, default=1.3)
    options = parser.parse_args()
    decide(1)
    source = resolve(options.model)
    with tempfile.TemporaryDirectory(prefix="gesso-bench-") as work:
        quantize_folder(source, Path(work) / "int8", Quantization(Int8(), Int8()))
        models = {
            "fp32": load_folder(source, "cpu", "float32"),
            "int8": load_folder(Path(work) / "int8", "cpu", "float32"),
        }
        canvas = options.canvas or models["fp32"].config.canvas_length
        steps = {name: make_step(model, canvas, options.prompt) for name, model in models.items()}
        for step in steps.values():  # compiles, and finds out how rows are aligned
            step()
        best = best_ms(steps, options.repeats)
        few = max(3, options.repeats // 4)
        for model in models.values():  # a layer that is observed goes by its own code
            model.layers[0].register_forward_hook(lambda *_: None)
        found = {name: products_ms(steps[name], few) | parts_ms(models[name], steps[name], few) for name in steps}
    times, ceiling = best["fp32"] / best["int8"], best["fp32"] / (best["int8"] - found["int8"]["products"])
    table = Table("part, processor ms", *best)
    for name in dict.fromkeys(name for parts in found.values() for name in parts):
        table.add_row(name, *(f"{found[kind].get(name, 0):.2f}" for kind in best))
    table.add_row("a step, unwatched", *(f"{best[kind]:.2f}" for kind in best))
    table.add_row("times fp32's speed", "1", f"{times:.2f} (without any product {ceiling:.2f})")
    Console(stderr=True).print(table)
    sizes = {"model": options.model, "canvas": canvas, "prompt": options.prompt}
    told = {"step_ms": best, "parts_ms": found, "times_fp32": times, "ceiling": ceiling, "goal": options.goal}
    print(json.dumps({"benchmark": "small_int8", **sizes, **told, "met": times >= options.goal}))


if __name__ == "__main__":
    main()
