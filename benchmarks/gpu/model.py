"""The published 26B shape with random weights, whole and in few bits, beside the floor, one by one and `transformers`.

    python benchmarks/gpu/model.py [--formats bf16,bf16-run,fp8,int8,int4,transformers] [--prompt 256] [--output 512]
                                   [--long 4096] [--repeats 3] [--layers 30] [--device cuda] [--small] [--json]

Batch 1, 16 steps a canvas. Passes are captured and replayed (CUDA graphs), `bf16-run` runs them. `transformers` has
random weights of its own, and is left out where it is not installed. Nothing is downloaded. With `--device cpu
--layers 1 --small` it runs anywhere, to see that it works: without recording, and its goals mean nothing there. The
last line is one line of JSON with the goals; the exit code is 1 where a format failed, 2 where there is no GPU.
"""

import argparse
import contextlib
import dataclasses
import gc
import json
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

from gesso.bench.cells import RANDOM_STEPS, Cell, Settings
from gesso.bench.measure import prompt_tokens
from gesso.bench.random_weights import random_engine
from gesso.bench.run import run_bench
from gesso.config import ModelConfig
from gesso.engine.engine import Engine
from gesso.generation import GenerationConfig
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.hf_config import write_config
from gesso.models.hf_generation_config import write_generation_config
from gesso.models.quantization.plan import Quantization
from gesso.nn.quant.base import Format
from gesso.nn.quant.fp8 import FP8
from gesso.nn.quant.integer import Int4, Int8
from gesso.runner.model_runner import ModelRunner
from gesso.text.tokenizer import TokenIds
from gesso.train.recipes.common import VISION
from gpu.qlora import config

FORMATS: dict[str, Format | None] = {"bf16": None, "bf16-run": None, "fp8": FP8(), "int8": Int8(), "int4": Int4()}
PEER = "transformers"
TOKENS_PER_S = {"bf16": 1000, "fp8": 1900, "int8": 1900, "int4": 2500}
GOALS = {"times_floor": 1.25, "first_block_s": 0.25, "times_ar": 4.0}
"""At most, at most, at least."""


def measure(
    name: str, shape: ModelConfig, cells: list[Cell], settings: Settings, device: torch.device
) -> dict[str, Any]:
    form = FORMATS[name]
    engine = random_engine(shape, name, str(device), "bfloat16", cells, Quantization(form, form))
    captured = not name.endswith("-run") and device.type == "cuda"
    if captured:
        runner = ModelRunner.of(engine.model, cuda_graphs=True)
        engine = Engine(runner, engine.tokenizer, engine.template, engine.defaults, engine.name)
    report = run_bench(
        engine,
        cells,
        settings,
        random_weights=True,
        stopped=lambda: False,
        telling=lambda _: contextlib.nullcontext(),
    )
    canvas, _, first = report["cells"]
    found = {
        "tokens_per_s": canvas["tokens_per_s"]["median"],
        "step_ms": canvas["step_ms"]["median"],
        "floor_ms": canvas["floor_ms"],
        "times_floor": canvas["times_floor"],
        "times_ar": canvas["times_ar"],
        "first_block_s": first["first_block_s"]["median"],
    }
    goals = GOALS | ({"tokens_per_s": TOKENS_PER_S[name]} if name in TOKENS_PER_S else {})
    least = ("times_ar", "tokens_per_s")
    met = {goal: found[goal] >= bound if goal in least else found[goal] <= bound for goal, bound in goals.items()}
    memory = {"weights_gb": report["model"]["weights_mb"] / 1e3, "peak_gb": canvas["peak_mb"] / 1e3}
    return {"captured": captured, **found, **memory, "machine": report["machine"], "goals": goals, "met": met}


def measure_peer(shape: ModelConfig, cells: list[Cell], settings: Settings, device: torch.device) -> dict[str, Any]:
    """The canvas cells in `transformers`, over weights of its own."""
    from transformers import DiffusionGemmaConfig, DiffusionGemmaForBlockDiffusion

    from peer import measure as measure_cell

    shape = dataclasses.replace(shape, vision_config=VISION)
    form = DiffusionGemmaConfig.from_dict(write_config(shape, "bfloat16"))
    with _parameters_on_meta(), device:
        model = DiffusionGemmaForBlockDiffusion._from_config(form, dtype=torch.bfloat16)
    model.tie_weights()  # a parameter that is registered anew shares nothing
    _draw_parameters(model, device)
    defaults = GenerationConfig(pad_token_id=shape.pad_token_id, eos_token_ids=(shape.eos_token_id,))
    raw = write_generation_config(defaults, shape)
    model.generation_config = type(model.generation_config).from_dict(raw)
    with torch.device("meta"):
        ids = Engine(DiffusionGemma(shape), TokenIds(), None, defaults)  # whose prompts are those of the others
    job = {"steps": settings.steps, "repeats": settings.repeats, "warmup": settings.warmup}
    found = []
    for cell in cells:
        if cell.mode == "canvas":
            prompts = [prompt_tokens(ids, cell.prompt, row) for row in range(cell.batch)]
            found.append(measure_cell(model.eval(), {**dataclasses.asdict(cell), "prompts": prompts}, job))
    return {
        "tokens_per_s": found[0]["tokens_per_s"]["median"],
        "step_ms": found[0]["step_ms"]["median"],
        "first_block_s": found[1]["first_block_s"]["median"],
    }


@contextlib.contextmanager
def _parameters_on_meta() -> Iterator[None]:
    """Lets modules register parameters without numbers: encoder and decoder have the same, and are tied last."""
    register = nn.Module.register_parameter

    def without_numbers(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        own = None if parameter is None else nn.Parameter(parameter.to("meta"), requires_grad=False)
        register(module, name, own)

    with mock.patch.object(nn.Module, "register_parameter", without_numbers):
        yield


@torch.no_grad()
def _draw_parameters(model: nn.Module, device: torch.device) -> None:
    """Draws every parameter once, wherever it is held."""
    drawn: dict[int, nn.Parameter] = {}
    for module in model.modules():
        for name, parameter in module._parameters.items():
            if parameter is None:
                continue
            if id(parameter) not in drawn:
                numbers = torch.empty(parameter.shape, dtype=parameter.dtype, device=device)
                numbers = numbers.normal_(0.0, 0.02) if parameter.dim() > 1 else numbers.fill_(1.0)
                drawn[id(parameter)] = nn.Parameter(numbers, requires_grad=False)
            module._parameters[name] = drawn[id(parameter)]


def run(arguments: argparse.Namespace, formats: list[str]) -> dict[str, Any]:
    device, shape = torch.device(arguments.device), config(arguments.layers, small=arguments.small)
    settings = Settings(RANDOM_STEPS, arguments.repeats, 1)
    cells = [
        Cell(arguments.prompt, arguments.output, 1, "canvas"),
        Cell(arguments.prompt, arguments.output, 1, "ar"),
        Cell(arguments.long, shape.canvas_length, 1, "canvas"),
    ]
    found: dict[str, Any] = {}
    for name in formats:
        try:
            if name == PEER:
                found[name] = measure_peer(shape, cells, settings, device)
            else:
                found[name] = measure(name, shape, cells, settings, device)
        except Exception as error:  # the other formats are worth measuring without this one
            found[name] = {"error": f"{type(error).__name__}: {error}"}
        gc.collect()
        if device.type == "cuda":
            torch.cuda.empty_cache()
        if not arguments.json:
            print(name, *(f"{key}={value}" for key, value in found[name].items() if key != "machine"), sep="  ")
    met = {f"{name}: {goal}": met for name, told in found.items() for goal, met in told.get("met", {}).items()}
    sizes = {"layers": arguments.layers, "prompt": arguments.prompt, "output": arguments.output, "long": arguments.long}
    return {"benchmark": "gpu model", "steps": RANDOM_STEPS, **sizes, "formats": found, "met": met}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--formats", default=",".join((*FORMATS, PEER)))
    parser.add_argument("--prompt", type=int, default=256)
    parser.add_argument("--output", type=int, default=512)
    parser.add_argument("--long", type=int, default=4096, help="tokens of the prompt before the first block")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--layers", type=int, default=30)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--small", action="store_true", help="narrow layers and a small vocabulary")
    parser.add_argument("--json", action="store_true", help="the JSON line alone")
    arguments = parser.parse_args()
    formats = [name for name in arguments.formats.split(",") if name]
    if unknown := [name for name in formats if name not in (*FORMATS, PEER)]:
        parser.error(f"--formats {unknown[0]!r} does not exist; known: {', '.join((*FORMATS, PEER))}")
    if min(arguments.layers, arguments.repeats, arguments.prompt, arguments.long) < 1 or arguments.output < 2:
        parser.error("--layers, --repeats, --prompt and --long must be at least 1, --output at least 2")
    if arguments.device == "cuda" and not torch.cuda.is_available():
        print(
            "no CUDA device here: nothing can be measured (model.py --device cpu --layers 1 --small)", file=sys.stderr
        )
        return 2
    if find_spec(PEER) is None:
        formats = [name for name in formats if name != PEER]
    found = run(arguments, formats)
    print(json.dumps(found))
    return 1 if any("error" in told for told in found["formats"].values()) else 0


if __name__ == "__main__":
    sys.exit(main())
