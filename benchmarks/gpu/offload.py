"""Streams experts through a card that is too small for them: whether copies are right, and what they cost.

    python benchmarks/gpu/offload.py [--device-memory 8GB] [--layers 30] [--folder DIR] [--repeats 3] [--device cuda]
                                     [--small] [--json]

First the link alone: modules whose weights stream (`CudaStore`) beside the same ones that stay, bit by bit, with more
arithmetic than copying and with less; a pass should take no longer than the longer of both. Then the published 26B
shape in int4 with random weights, from a checkpoint that is written first (15.7 GB, or the one in `--folder`): a prompt
and a denoising pass within `--device-memory`, beside the floor, which is the longer of copying what streams and of the
same pass with all weights on the card; where the card holds them, outputs are compared bit by bit. `--device cpu
--layers 6 --small` runs anywhere, to see that it works: a store without a link, goals mean nothing. The last line is
one line of JSON; the exit code is 1 where outputs differ or more memory was used than allowed, 2 where there is no GPU.
"""

import argparse
import gc
import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

from _fullsize import write
from gesso.models.cache import cache_bytes
from gesso.models.diffusion_gemma import PREFILL_CHUNK, DiffusionGemma, initialise
from gesso.models.loading import load_folder
from gesso.models.offload import CONTEXT, Offload
from gesso.models.saving import save_folder
from gesso.nn.device_store import CudaStore, DeviceStore
from gesso.nn.layer_stream import PLACES, LayerStream
from gesso.options.sizes import size_in_bytes
from gesso.runner.offload import working_bytes
from gpu.qlora import config

SEED, PROMPT, CANVAS = 0, 32, 256
TIMES_FLOOR = 1.25
"""At most, of a pass that streams."""
ROWS = {"more arithmetic": 8192, "less arithmetic": 16}
"""Rows that streamed matrices are multiplied by: more time than a copy takes, and less."""


class PlainStore:
    """Implements `DeviceStore` where there is no link: copies are done at once."""

    def hold(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return dict(tensors)

    def place(self, like: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {name: torch.empty_like(tensor) for name, tensor in like.items()}

    def copy(self, source: Mapping[str, Tensor], target: Mapping[str, Tensor], after: int | None) -> int:  # noqa: ARG002
        for name, tensor in source.items():
            target[name].copy_(tensor)
        return 0

    def wait(self, mark: int) -> None:
        """Has nothing to wait for."""

    def mark(self) -> int:
        return 0

    def rate(self) -> float:
        source = {"bytes": torch.zeros(1 << 26, dtype=torch.uint8)}
        target, begin = self.place(source), time.perf_counter()
        self.copy(source, target, None)
        return (1 << 26) / (time.perf_counter() - begin)


def make_store(device: torch.device) -> DeviceStore[Any]:
    return CudaStore(device) if device.type == "cuda" else PlainStore()


def seconds(work: Callable[[], object], device: torch.device, repeats: int) -> float:
    """The best time of so many calls, after one that is not counted."""
    best = float("inf")
    for repeat in range(repeats + 1):
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        begin = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        if repeat:
            best = min(best, time.perf_counter() - begin)
    return best


@torch.inference_mode()
def check_link(device: torch.device, size: int, repeats: int) -> dict[str, Any]:
    """Streams matrices of `size` x `size` through both places, and compares with the same ones that stay."""
    store, generator = make_store(device), torch.Generator().manual_seed(SEED)
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    weights = [torch.randn(size, size, generator=generator).to(dtype) * size**-0.5 for _ in range(5)]

    def layers(where: torch.device) -> list[nn.Module]:
        made = [nn.Linear(size, size, bias=False, device="meta") for _ in weights]
        for layer, weight in zip(made, weights, strict=True):
            layer.load_state_dict({"weight": weight.to(where, copy=True)}, assign=True)
        return list(made)

    resident, streamed = layers(device), layers(torch.device("cpu"))
    stream = LayerStream(streamed, store)
    rate, found = store.rate(), dict[str, Any]()
    for name, rows in ROWS.items():
        x = torch.randn(rows if device.type == "cuda" else 16, size, generator=generator).to(device, dtype)
        runs = {"resident": nn.Sequential(*resident), "streamed": nn.Sequential(*streamed)}
        outputs = [runs["streamed"](x) for _ in range(4)]
        equal = all(torch.equal(out, runs["resident"](x)) for out in outputs)
        times = {key: seconds(partial(run, x), device, repeats) for key, run in runs.items()}
        floor = max(times["resident"], stream.bytes / rate)
        found[name] = {"equal": equal, **times, "floor": floor, "times_floor": times["streamed"] / floor}
    return {"link_gb_s": rate / 1e9, **found}


def write_folder(folder: Path, layers: int, *, small: bool) -> None:
    if (folder / "config.json").exists():
        return
    if not small:
        write(folder, layers, "int4")
        return
    model = DiffusionGemma(config(layers, small=True))
    initialise(model, SEED)
    save_folder(model.to(torch.bfloat16), folder)


def small_memory(folder: Path) -> int:
    """Bytes of a small model with the experts of one layer, and room for two layers' more."""
    model = load_folder(folder, "cpu", "bfloat16")
    sizes = {name: tensor.nbytes for name, tensor in model.state_dict().items()}
    one = sum(size for name, size in sizes.items() if name.startswith("layers.0.experts."))
    others = sum(size for name, size in sizes.items() if ".experts." not in name)
    cache = cache_bytes(model.config, model.dtype, CONTEXT, max(PREFILL_CHUNK, CANVAS))
    total: int = others + (PLACES + 1) * one + cache
    return total


@torch.inference_mode()
def passes(model: DiffusionGemma, device: torch.device, repeats: int) -> tuple[list[Tensor], float]:
    """Hidden states of a prompt, a denoising pass and one that is conditioned on it; and the seconds of such a pass."""
    generator = torch.Generator().manual_seed(SEED)
    prompt, canvas = (torch.randint(model.config.vocab_size, (1, n), generator=generator) for n in (PROMPT, CANVAS))
    cache = model.new_cache(1, PROMPT + CANVAS, CANVAS)
    encoded = model.encode(prompt, cache)
    hidden = model.denoise_hidden(canvas, cache)
    again = model.denoise_hidden(canvas, cache, hidden)
    took = seconds(lambda: model.denoise_hidden(canvas, cache, hidden), device, repeats)
    return [part.cpu() for part in (encoded, hidden, again)], took


def check_model(folder: Path, device: torch.device, memory: int, *, small: bool, repeats: int) -> dict[str, Any]:
    store, told = make_store(device), list[str]()
    asked = Offload(memory, 0 if small else working_bytes(0), store, (), told.append)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    model = load_folder(folder, str(device), "bfloat16", offload=asked)
    plan = model.offload
    if plan is None:
        return {"error": "everything fits: give less --device-memory"}
    hidden, streamed = passes(model, device, repeats)
    peak = torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None
    rate, copied = store.rate(), plan.streamed
    del model
    gc.collect()
    found: dict[str, Any] = {
        "plan": told,
        "streamed_layers": len(plan.layers),
        "streamed_gb": copied / 1e9,
        "pass_s": streamed,
        "copying_s": copied / rate,
        "peak_gb": peak and peak / 1e9,
        "within_memory": peak is None or peak <= memory,
    }
    floor = copied / rate
    try:
        if device.type == "cuda":
            torch.cuda.empty_cache()
        expected, whole = passes(load_folder(folder, str(device), "bfloat16"), device, repeats)
    except torch.OutOfMemoryError:  # the card is as small as it was said to be
        found["equal"] = None
    else:
        floor = max(floor, whole)
        found |= {"whole_s": whole, "equal": all(torch.equal(*pair) for pair in zip(hidden, expected, strict=True))}
    return found | {"floor_s": floor, "times_floor": streamed / floor, "met": streamed <= TIMES_FLOOR * floor}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device-memory", default="8GB")
    parser.add_argument("--layers", type=int, default=30)
    parser.add_argument("--folder", type=Path, help="keep the checkpoint here, or use the one that is")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--small", action="store_true", help="narrow layers, and memory for one of them")
    parser.add_argument("--json", action="store_true", help="the JSON line alone")
    arguments = parser.parse_args()
    if min(arguments.layers, arguments.repeats) < 1:
        parser.error("--layers and --repeats must be at least 1")
    if arguments.small and arguments.layers % 6:
        parser.error("--small takes multiples of six --layers, of which the last sees everything")
    if arguments.device == "cuda" and not torch.cuda.is_available():
        print(
            "no CUDA device here: nothing can be measured (offload.py --device cpu --layers 6 --small)", file=sys.stderr
        )
        return 2
    device = torch.device(arguments.device)
    found: dict[str, Any] = {"link": check_link(device, 256 if arguments.small else 8192, arguments.repeats)}
    with tempfile.TemporaryDirectory(dir=arguments.folder and arguments.folder.parent) as work:
        folder = arguments.folder or Path(work) / "checkpoint"
        write_folder(folder, arguments.layers, small=arguments.small)
        memory = small_memory(folder) if arguments.small else size_in_bytes(arguments.device_memory, "--device-memory")
        found["model"] = check_model(folder, device, memory, small=arguments.small, repeats=arguments.repeats)
    if not arguments.json:
        for part, told in found.items():
            print(part, *(f"{key}={value}" for key, value in told.items()), sep="  ")
    print(json.dumps({"benchmark": "gpu offload", "device_memory": memory, "layers": arguments.layers, **found}))
    right = all(found["link"][name]["equal"] for name in ROWS) and found["model"].get("equal", False) is not False
    return 0 if right and found["model"]["within_memory"] else 1


if __name__ == "__main__":
    sys.exit(main())
