"""What fewer bits cost and what they save: size, logits, exact answers, and the time of a step.

    python benchmarks/quantize.py [--formats whole,int8,int4] [--model mini] [--examples 20] [--prompts 30] [--steps 5]
        [--tokens 8] [--threads N] [--json]

Quality, on a bundled model: relative error of the logits of a denoising pass against the checkpoint's own weights in
fp32; over `--prompts` held-out prompts of its tasks and two passes behind each, by how many nats a position its
predictions differ (Kullback-Leibler) and how often the likeliest token is the same; and answers exactly right on the
tasks (`--examples`). `FORMAT-calibrated` is the format with scales found from activations. Speed, on the random model
`wide` of `_shapes.py`, batch 1: a denoising step (canvas 256 behind a prompt of 256) and a token of the left-to-right
mode. The ceiling of a token is what it must read (the dense layers, the experts of one token, the table) over the
machine's bandwidth.
The last line is one line of JSON.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from _shapes import CANVAS, PROMPT, SHAPES, write_checkpoint
from gesso.api import load, load_model
from gesso.cli.calibration import calibration_for
from gesso.engine.prompt import PromptReader
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.hub import resolve
from gesso.models.quantization.convert import quantize_folder
from gesso.models.quantization.plan import Quantization
from gesso.nn.experts import Experts
from gesso.nn.quant.integer import Int4, Int8
from gesso.nn.quant.layers import QuantizedExperts
from gesso.nn.quant.nf4 import NF4
from gesso.tasks.base import evaluation_set
from gesso.tasks.registry import TASKS, default_tasks
from gesso.train.evaluate import evaluate

FORMS = {
    "whole": Quantization(),
    "int8": Quantization(Int8(), Int8()),
    "int4": Quantization(Int4(), Int4()),
    "table-int8": Quantization(embedding=Int8()),
    "table-int4": Quantization(embedding=Int4()),
    "int4-table-int8": Quantization(Int4(), Int4(), Int8()),
    "nf4": Quantization(NF4(), NF4()),
}
CALIBRATED = "-calibrated"
FORMS |= {f"{name}{CALIBRATED}": FORMS[name] for name in ("int8", "int4", "nf4")}
STREAM_BYTES = 1 << 28


def make(source: Path, folder: Path, names: list[str]) -> dict[str, Path]:
    """The checkpoint in the formats that are asked for; `source` is called as the model."""
    made = {}
    for name in names:
        made[name] = source if name == "whole" else folder / name
        if name != "whole":
            calibration = calibration_for(source.name, source, None) if name.endswith(CALIBRATED) else None
            quantize_folder(source, made[name], FORMS[name], calibrate=calibration)
    return made


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*.safetensors"))


def bandwidth() -> float:
    """Bytes a second that a sum reads."""
    numbers = torch.ones(STREAM_BYTES // 4)
    times = []
    for _ in range(5):
        start = time.perf_counter()
        numbers.sum()
        times.append(time.perf_counter() - start)
    return STREAM_BYTES / min(times)


def token_bytes(model: DiffusionGemma) -> int:
    """What the pass of one token reads: all but the experts that are not its own."""
    total: int = sum(t.nbytes for t in model.state_dict().values())
    share = 1 - model.config.top_k_experts / model.config.num_experts
    experts = (m for m in model.modules() if isinstance(m, Experts | QuantizedExperts))
    held = sum(t.nbytes for m in experts for t in m.state_dict().values())
    return int(total - share * held)


def logits(model: DiffusionGemma, seed: int = 0) -> torch.Tensor:
    """Of a denoising pass over a random canvas behind a random prompt."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(model.config.vocab_size, (1, 64 + model.config.canvas_length), generator=generator)
    cache = model.new_cache(1)
    model.encode(tokens[:, :64], cache)
    return model.denoise(tokens[:, 64:], cache)


def predictions(model: DiffusionGemma, prompts: list[list[int]], exact: list[Tensor]) -> list[Tensor]:
    """Logits of a canvas of noise behind each prompt, and of one conditioned on what the whole model makes of it.

    Args:
        exact: the same of the whole model; empty where this is that.
    """
    generator, found = torch.Generator().manual_seed(0), list[Tensor]()
    for number, prompt in enumerate(prompts):
        cache = model.new_cache(1)
        model.encode(torch.tensor([prompt]), cache)
        canvas = torch.randint(model.config.vocab_size, (1, model.config.canvas_length), generator=generator)
        first = model.denoise(canvas, cache)
        known = exact[2 * number] if exact else first
        found += [first, model.denoise(known.argmax(dim=-1), cache, model.self_conditioning_embeddings(known))]
    return found


def differences(found: list[Tensor], exact: list[Tensor]) -> dict[str, float]:
    """How far predictions are from those of the whole model."""
    ours, true = (torch.cat(parts).float().log_softmax(dim=-1) for parts in (found, exact))
    divergence = (true.exp() * (true - ours)).sum(dim=-1).mean()
    same = (true.argmax(dim=-1) == ours.argmax(dim=-1)).float().mean()
    return {"divergence": round(divergence.item(), 5), "same_token": round(same.item(), 4)}


def quality(model: str, names: list[str], examples: int, count: int, folder: Path) -> dict[str, Any]:
    """Size, errors of logits and predictions, and exact answers of a bundled model in each format and dtype."""
    found: dict[str, Any] = {}
    tasks, whole = [TASKS[name] for name in default_tasks(model)], load(model, "cpu", "float32")
    asked = [case.prompt for task in tasks for case in evaluation_set(task, -(-count // len(tasks)), 1)][:count]
    reader = PromptReader(whole.tokenizer, whole.template, whole.config)
    prompts = [list(reader.read(prompt).ids) for prompt in asked]
    base = load_model(model, "cpu", "float32")
    exact, known = logits(base), predictions(base, prompts, [])
    for form, place in make(resolve(model), folder, names).items():
        for dtype in ("float32", "bfloat16"):
            engine, made = load(place, "cpu", dtype), load_model(place, "cpu", dtype)
            error = (logits(made) - exact).norm() / exact.norm()
            told = differences(predictions(made, prompts, known), known) if prompts else {}
            found[f"{form} {dtype}"] = {"bytes": size(place), "logits_error": round(error.item(), 5), **told}
            if not examples:
                continue
            scores = [evaluate(engine, task, examples=examples) for task in tasks]
            found[f"{form} {dtype}"] |= {
                "right": sum(score.right for score in scores),
                "examples": sum(score.examples for score in scores),
                "steps_per_canvas": round(statistics.mean(score.mean_steps for score in scores), 2),
            }
    return found


def speed(names: list[str], steps: int, tokens: int, folder: Path) -> dict[str, Any]:
    """Milliseconds of a denoising step and of a token in each format and dtype; one engine is held at a time."""
    write_checkpoint(SHAPES["wide"], folder / "wide")
    rate = bandwidth()
    found: dict[str, Any] = {}
    for form, place in make(folder / "wide", folder, names).items():
        for dtype in ("float32", "bfloat16"):
            found[f"{form} {dtype}"] = {
                "bytes": size(place),
                **times(load_model(place, "cpu", dtype), steps, tokens, rate),
            }
    return {"bandwidth": rate, "formats": found}


def times(model: DiffusionGemma, steps: int, tokens: int, rate: float) -> dict[str, float]:
    generator = torch.Generator().manual_seed(0)
    prompt, canvas = torch.randint(model.config.vocab_size, (PROMPT + CANVAS,), generator=generator).split(PROMPT)
    cache = model.new_cache(1, max_seq_len=PROMPT + CANVAS)
    model.encode_flat(prompt, [PROMPT], cache)
    step = median_ms(lambda: predict(model, model.denoise_flat(canvas, [CANVAS], cache)), steps)
    token = median_ms(lambda: predict(model, model.encode_flat(canvas[:1], [1], cache)), tokens)
    return {
        "step_ms": round(step, 1),
        "token_ms": round(token, 1),
        "token_floor_ms": round(1e3 * token_bytes(model) / rate, 1),
    }


def predict(model: DiffusionGemma, hidden: torch.Tensor) -> None:
    rows = len(hidden)
    model.vocabulary.predict(hidden, torch.full((rows,), 0.8), torch.full((rows,), 0.5))


def median_ms(work: Callable[[], None], times: int) -> float:
    work()
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return 1e3 * statistics.median(taken)


def show(console: Console, title: str, rows: dict[str, dict[str, Any]]) -> None:
    names = list(next(iter(rows.values())))
    table = Table(title, *(name.replace("_", " ") for name in names), box=None)
    for label, row in rows.items():
        table.add_row(label, *(f"{row[name] / 1e6:.1f} MB" if name == "bytes" else str(row[name]) for name in names))
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--formats", default="whole,int8,int4", help=f"of {', '.join(FORMS)}")
    parser.add_argument("--examples", type=int, default=20, help="prompts of each task; 0 leaves answers out")
    parser.add_argument("--model", default="mini", help="bundled model whose quality is measured")
    parser.add_argument("--prompts", type=int, default=30, help="prompts whose predictions are compared; 0 for none")
    parser.add_argument("--steps", type=int, default=5, help="denoising steps that are timed; 0 leaves speed out")
    parser.add_argument("--tokens", type=int, default=8, help="tokens that are timed")
    parser.add_argument("--threads", type=int, help="CPU threads; all without it")
    parser.add_argument("--json", action="store_true", help="print the JSON line alone")
    options = parser.parse_args()
    names = options.formats.split(",")
    if unknown := [name for name in names if name not in FORMS]:
        parser.error(f"--formats: {unknown[0]!r} does not exist; known: {', '.join(FORMS)}")
    if options.threads:
        torch.set_num_threads(options.threads)
    console = Console(file=sys.stderr if options.json else sys.stdout, highlight=False)
    result: dict[str, Any] = {"threads": torch.get_num_threads(), "torch": torch.__version__}
    with tempfile.TemporaryDirectory(prefix="gesso-bench-") as folder, torch.no_grad():
        if options.examples or options.prompts:
            place = Path(folder) / options.model
            result["quality"] = quality(options.model, names, options.examples, options.prompts, place)
            show(console, options.model, result["quality"])
        if options.steps:
            (Path(folder) / "speed").mkdir()
            result["speed"] = speed(names, options.steps, options.tokens, Path(folder) / "speed")
            console.print(f"bandwidth {result['speed']['bandwidth'] / 1e9:.1f} GB/s")
            show(console, "wide", result["speed"]["formats"])
    print(json.dumps(result))


if __name__ == "__main__":
    main()
