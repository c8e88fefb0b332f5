"""Every kernel against the plain computation that it must equal, and its time beside the least that it can take.

    python benchmarks/gpu/kernels.py [--interpret] [--probe] [--only NAME] [--profile] [--json]

At the sizes of the published 26B shape: 256 positions, width 2816, 262,144 tokens, 128 experts of 704. The last line is
one line of JSON with the goals; the exit code is 1 where a check fails (a goal that is missed is told, and no failure).
With `--interpret`, small sizes on the CPU, kernels in Triton's interpreter, no times. `--probe` only tells whether
there is a GPU; `--profile` names the kernels that a replayed pass spends its time in. Without a GPU the exit code is 2.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

from gesso.bench.floor import Rates
from gesso.bench.machine import describe_machine, measure_rates
from gesso.nn import vocabulary as vocabulary_module
from gesso.nn.mixtures import mix_experts, mix_grouped
from gesso.nn.quant import base as quant_base
from gesso.nn.quant.base import Format
from gesso.nn.quant.fp8 import FP8
from gesso.nn.quant.integer import Int4, Int8
from gesso.nn.quant.layers import QuantizedExperts, QuantizedLinear
from gesso.nn.quant.nf4 import NF4
from gesso.nn.quant.nvfp4 import NVFP4
from gesso.nn.vocabulary import Vocabulary, VocabularyPass
from gpu._layers import ATTENTION, SMALL_ATTENTION, attention, between_products, captured_passes
from gpu._measuring import distance, grouped_by, milliseconds
from gpu._training import training_checks
from gpu.qlora import config

FORMS: tuple[Format, ...] = (Int8(), FP8(), Int4(), NF4(), NVFP4())
GOAL = 1.25
"""Times the floor."""


def vocabulary_pass(device: torch.device, dtype: torch.dtype, sizes: tuple[int, int, int]) -> dict[str, Any]:
    """The fused online-softmax pass over the table, and all that follows from it, by the kernel and chunk by chunk."""
    rows, vocab, width = sizes
    table = Vocabulary(vocab, width, 30.0).to(device, dtype).requires_grad_(False)
    table.weight.normal_(0.0, width**-0.5)
    hidden = 4.0 * torch.randn(rows, width, device=device, dtype=dtype)
    temperature, uniform = torch.linspace(0.4, 0.8, rows, device=device), torch.rand(rows).to(device)

    def predict(*, kernel: bool) -> VocabularyPass:
        with mock.patch.object(vocabulary_module, "usable", return_value=kernel):
            return table.predict(hidden, temperature, uniform)

    found, expected = predict(kernel=True), predict(kernel=False)
    errors = {
        "entropy": float((found.entropy_N - expected.entropy_N).abs().max()),
        "normaliser": float((found.normaliser_N - expected.normaliser_N).abs().max()),
        "embedding": distance(found.embedding_ND, expected.embedding_ND),
        "argmax_differs": float((found.argmax_N != expected.argmax_N).float().mean()),
        "sample_differs": float((found.sample_N != expected.sample_N).float().mean()),
    }
    # In bfloat16 another order of adding up may round a score to its neighbour: a bit of 8, divided by 0.4.
    near = 1e-3 if dtype == torch.float32 else 0.05
    # A sample is where a sum of shares passes a number: another order of adding up moves some over the edge.
    few = {"argmax_differs": 0.0, "sample_differs": 0.02} if dtype == torch.float32 else {}
    right = max(errors["entropy"], errors["normaliser"], errors["embedding"]) <= near
    right = right and all(errors[name] <= few.get(name, 0.05) for name in ("argmax_differs", "sample_differs"))
    told = {"name": f"vocabulary {str(dtype).removeprefix('torch.')}", "right": right, "errors": errors}
    if device.type == "cuda":
        told |= {
            "ms": milliseconds(partial(predict, kernel=True), captured=True),
            "plain_ms": milliseconds(partial(predict, kernel=False), captured=True),
            "bytes": 2 * table.weight.nbytes,
            "operations": 4 * rows * vocab * width,
        }
    return told


def experts(
    device: torch.device, dtype: torch.dtype, sizes: tuple[int, int, int, int], *, own: bool = False
) -> dict[str, Any]:
    """One grouped matmul for all experts, PyTorch's or our `own`, and the matmul of each."""
    rows, width, inner, count = sizes
    top_k = min(8, count)
    gate_up = 0.02 * torch.randn(count, 2 * inner, width, device=device, dtype=dtype)
    down = 0.02 * torch.randn(count, width, inner, device=device, dtype=dtype)
    x = torch.randn(rows, width, device=device, dtype=dtype)
    numbers = torch.rand(rows, count, device=device).topk(top_k).indices
    weights = torch.rand(rows, top_k, device=device)

    def one_by_one() -> Tensor:
        linear = torch.nn.functional.linear
        pairs = ((partial(linear, weight=a), partial(linear, weight=b)) for a, b in zip(gate_up, down, strict=True))
        return mix_experts(x, weights, numbers, count, pairs)

    def together() -> Tensor:
        with grouped_by(own=own):
            return mix_grouped(x, weights, numbers, gate_up, down)

    error = distance(together(), one_by_one())
    kernel = " by our kernel" if own else ""
    told: dict[str, Any] = {"name": f"experts {str(dtype).removeprefix('torch.')}{kernel}", "errors": {"out": error}}
    told["right"] = error <= (1e-4 if dtype == torch.float32 else 0.02)
    if device.type == "cuda":
        met = len(numbers.unique()) / count
        told |= {
            "ms": milliseconds(together, captured=True),
            "plain_ms": milliseconds(one_by_one),
            "bytes": int(met * (gate_up.nbytes + down.nbytes)),
            "operations": 6 * rows * top_k * width * inner,
        }
    return told


def packed_experts(device: torch.device, form: Format, sizes: tuple[int, int, int, int]) -> dict[str, Any]:
    """All experts in few bits by the kernel, and each turned back and multiplied."""
    rows, width, inner, count = sizes
    top_k = min(8, count)
    layer = QuantizedExperts(width, inner, count, form).to(device)
    for matrix, shape in zip(("gate_up", "down"), layer.shapes, strict=True):
        for number in range(count):
            made = form.quantize(0.02 * torch.randn(shape, device=device))
            for own, part in zip(layer.parts(matrix), made, strict=True):
                own[number] = part
    x = torch.randn(rows, width, device=device, dtype=torch.bfloat16)
    numbers = torch.rand(rows, count, device=device).topk(top_k).indices
    weights = torch.rand(rows, top_k, device=device)
    told = _beside_turning_back(f"experts {form.kernel}", partial(layer, x, weights, numbers), device)
    if device.type == "cuda":
        met = len(numbers.unique()) / count
        told |= {
            "bytes": int(met * sum(part.nbytes for part in layer.buffers())),
            "operations": 6 * rows * top_k * width * inner,
        }
    return told


def packed_linear(device: torch.device, form: Format, sizes: tuple[int, int, int]) -> dict[str, Any]:
    """A linear layer in few bits by the kernel, and turned back and multiplied."""
    rows, width, columns = sizes
    layer = QuantizedLinear(width, columns, form=form).to(device)
    for name, part in zip(form.parts, form.quantize(0.02 * torch.randn(columns, width, device=device)), strict=True):
        layer.get_buffer(name).copy_(part)
    x = torch.randn(rows, width, device=device, dtype=torch.bfloat16)
    told = _beside_turning_back(f"linear {form.kernel}", partial(layer, x), device)
    if device.type == "cuda":
        operations = 2 * rows * width * columns
        told |= {"bytes": sum(part.nbytes for part in layer.buffers()), "operations": operations}
    return told


def _beside_turning_back(name: str, layer: Callable[[], Tensor], device: torch.device) -> dict[str, Any]:
    """Checks, and times on CUDA."""

    def run(*, kernel: bool) -> Tensor:
        with mock.patch.object(quant_base, "usable", return_value=kernel):
            return layer()

    error = distance(run(kernel=True), run(kernel=False))
    # Two products one behind the other, each rounded to bfloat16 in another order of adding up.
    told: dict[str, Any] = {"name": name, "right": error <= 0.03, "errors": {"out": error}}
    if device.type == "cuda":
        told["ms"] = milliseconds(partial(run, kernel=True), captured=True)
        told["plain_ms"] = milliseconds(partial(run, kernel=False))
    return told


def beside_the_floor(told: dict[str, Any], rates: Rates) -> dict[str, Any]:
    if "bytes" not in told:
        return told
    floor = 1e3 * max(told.pop("bytes") / rates.bytes, told.pop("operations") / rates.operations)
    times = told["ms"] / floor
    return told | {"floor_ms": floor, "times_floor": times, "goal": GOAL, "met": times <= GOAL}


def with_gradients(check: Callable[[torch.device], dict[str, Any]]) -> Callable[[torch.device], dict[str, Any]]:
    """A check of training, beside those of inference."""

    def checked(device: torch.device) -> dict[str, Any]:
        with torch.inference_mode(False), torch.enable_grad():
            return check(device)

    return checked


Check = Callable[[], list[dict[str, Any]]]


def checks(device: torch.device, *, profile: bool) -> Iterator[tuple[str, Check]]:
    """Yields every check by name."""

    def one(name: str, check: Callable[..., dict[str, Any]], *arguments: Any) -> tuple[str, Check]:
        return name, lambda: [check(device, *arguments)]

    on_gpu = device.type == "cuda"
    vocabulary = (256, 262_144, 2816) if on_gpu else (32, 1000, 112)
    mixture = (256, 2816, 704, 128) if on_gpu else (32, 128, 64, 16)
    yield one("vocabulary", vocabulary_pass, torch.bfloat16, vocabulary)
    yield one("vocabulary in float32", vocabulary_pass, torch.float32, (256, 32_768, 2816) if on_gpu else vocabulary)
    yield one("experts", experts, torch.bfloat16, mixture)
    yield one("experts by our kernel", partial(experts, own=True), torch.bfloat16, mixture)
    yield one("experts in float32", partial(experts, own=True), torch.float32, mixture)
    for form in FORMS:
        yield one(f"experts {form.kernel}", packed_experts, form, mixture)
    for form in FORMS:
        yield one(f"linear {form.kernel}", packed_linear, form, (256, 2816, 4096) if on_gpu else (32, 128, 100))
    for dtype, *case in ATTENTION if on_gpu else SMALL_ATTENTION:
        yield one(f"attention, {case[0]}", attention, dtype, *case)
    for name, training in training_checks(on_gpu):
        yield one(name, with_gradients(training))
    yield one("between products", between_products, (256, 2816, 2112) if on_gpu else (32, 272, 100))
    if on_gpu:
        yield "captured passes of 8 experts", partial(captured_passes, device, experts=8)
        yield "captured passes", partial(captured_passes, device, profile=profile)
        for form in (FP8(), Int4()):
            yield f"captured passes, {form.kernel}", partial(captured_passes, device, profile=profile, form=form)


@torch.inference_mode()
def run(device: torch.device, *, only: str = "", profile: bool = False, quiet: bool = False) -> dict[str, Any]:
    torch.manual_seed(0)
    rates = measure_rates(config(6, small=False), 256, torch.bfloat16, device) if device.type == "cuda" else None
    found: list[dict[str, Any]] = []
    for name, check in checks(device, profile=profile):
        if only not in name:
            continue
        try:
            told = check()
        except Exception as error:  # the other checks are worth having without this one
            told = [{"name": name, "right": False, "error": f"{type(error).__name__}: {error}"}]
        if rates is not None:
            told = [_timeless(one) if "float32" in one["name"] else beside_the_floor(one, rates) for one in told]
        found += told
        if not quiet:
            for one in told:
                print(*(f"{key}={value}" for key, value in one.items()), sep="  ", flush=True)
    goals = [told["met"] for told in found if "met" in told]
    return {
        "benchmark": "gpu kernels",
        "machine": describe_machine(device),
        "kernels": found,
        "right": all(told["right"] for told in found),
        "goal": f"times_floor <= {GOAL}",
        "met": all(goals) if goals else None,
    }


def _timeless(told: dict[str, Any]) -> dict[str, Any]:
    """fp32 has no floor here: rates are those of bfloat16."""
    return {name: value for name, value in told.items() if name not in ("bytes", "operations")}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--interpret", action="store_true", help="small sizes on the CPU, in Triton's interpreter")
    parser.add_argument("--probe", action="store_true", help="only tell whether there is a GPU")
    parser.add_argument("--only", default="", help="checks whose name has this in it; all without it")
    parser.add_argument("--profile", action="store_true", help="name the kernels of a replayed pass")
    parser.add_argument("--json", action="store_true", help="the JSON line alone")
    arguments = parser.parse_args()
    if not arguments.interpret and not torch.cuda.is_available():
        print(
            "no CUDA device here: nothing can be measured (kernels.py --interpret checks on the CPU)", file=sys.stderr
        )
        return 2
    if arguments.probe:
        return 0
    if arguments.interpret:
        os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported, which the first kernel does
    device = torch.device("cpu" if arguments.interpret else "cuda")
    found = run(device, only=arguments.only, profile=arguments.profile, quiet=arguments.json)
    if not found["kernels"]:
        names = ", ".join(name for name, _ in checks(device, profile=False))
        parser.error(f"--only {arguments.only!r} is in no check's name; known: {names}")
    print(json.dumps(found))
    return 0 if found["right"] else 1


if __name__ == "__main__":
    sys.exit(main())
