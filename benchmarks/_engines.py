"""The measuring processes of `denoise.py`: one engine each, so that neither sees the other's memory.

    python _engines.py '{"job": "gesso", "shape": "small", "folder": ..., ...}'     -> one JSON line

A step is everything between two canvases: the forward pass with self-conditioning, temperature, sample, argmax,
entropy, acceptance, fresh noise and the stopping check. The check runs and never fires.
Memory over the weights: the highest resident size from the first encode to the last measured step, less the resident
size after loading, when every weight has been read once.
"""

import dataclasses
import json
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from _shapes import CANVAS, PROMPT, SHAPES, write_checkpoint

ENTROPY_BOUND, NEVER = 0.1, 1e-30
NEAR_ZERO = 1e-6
PROC = Path("/proc/self")


@dataclass(frozen=True, slots=True)
class Run:
    """What both engines are given."""

    prompt: Tensor
    canvas: Tensor
    steps: int
    t_min: float
    t_max: float
    patience: float = float("inf")
    """Seconds after which a step is too slow to go on."""

    def temperature(self, step: int) -> float:
        """`step` counts down from `steps` to 1."""
        return self.t_min + (self.t_max - self.t_min) * step / self.steps


Steps = Iterator[tuple[float, list[int]]]
"""Seconds and argmax canvas of each step. The first one's seconds include the encoding of the prompt."""


def gesso_engine(folder: Path, dtype: str) -> tuple[torch.nn.Module, Callable[[Run], Steps]]:
    from gesso.diffusion.canvas_state import CanvasState, DenoisingRules
    from gesso.diffusion.denoise import denoise_step
    from gesso.diffusion.samplers.entropy_bound import EntropyBoundSampler
    from gesso.diffusion.schedules.linear import LinearSchedule
    from gesso.diffusion.step import CanvasShape, StartTokens
    from gesso.diffusion.stopping.stable_and_confident import StableAndConfident
    from gesso.models.loading import load_folder

    model = load_folder(folder, device="cpu", dtype=dtype)

    def denoise(run: Run) -> Steps:
        started = time.perf_counter()
        cache = model.new_cache(batch_size=1, max_seq_len=PROMPT + CANVAS)
        rules = DenoisingRules(
            run.steps,
            LinearSchedule(run.t_min, run.t_max),
            EntropyBoundSampler(ENTROPY_BOUND),
            StableAndConfident(1 if run.t_min > NEAR_ZERO else run.steps + 1, NEVER),  # near zero every step is certain
        )
        generator = torch.Generator().manual_seed(0)
        shape, start = CanvasShape(CANVAS, model.config.vocab_size), StartTokens(run.canvas[0].tolist())
        state = CanvasState(rules, shape, generator, start=start)
        with torch.inference_mode():
            model.encode(run.prompt, cache)
            while not state.finished:
                denoise_step(model, [state], cache)
                now = time.perf_counter()
                yield now - started, state.argmax_C.tolist()
                started = now

    return model, denoise


def transformers_engine(
    folder: Path, dtype: str, experts: str, attention: str, compiled: bool = False
) -> tuple[torch.nn.Module, Callable[[Run], Steps]]:
    from transformers import DiffusionGemmaForBlockDiffusion

    model = DiffusionGemmaForBlockDiffusion.from_pretrained(
        folder, dtype=getattr(torch, dtype), attn_implementation=attention, experts_implementation=experts
    ).eval()

    class Stopwatch:
        """`generate` hands every step's argmax canvas to a streamer with `put_draft`."""

        def __init__(self, patience: float) -> None:
            self.patience = patience
            self.steps: list[tuple[float, list[int]]] = []
            self.started = time.perf_counter()

        def put_draft(self, value: Tensor) -> None:
            now = time.perf_counter()
            self.steps.append((now - self.started, value[0].tolist()))
            self.started = now
            if self.steps[-1][0] > self.patience:
                raise TimeoutError(f"a step takes {self.steps[-1][0]:.1f} s")

        def put(self, value: Tensor) -> None:
            """Prompt and finished canvas: nothing to time."""

        def end(self) -> None:
            """Nothing to close."""

    def denoise(run: Run) -> Steps:
        watch = Stopwatch(run.patience)
        model.generate(
            run.prompt,
            streamer=watch,
            decoder_input_ids=run.canvas,
            max_new_tokens=CANVAS,
            max_denoising_steps=run.steps,
            t_min=run.t_min,
            t_max=run.t_max,
            stability_threshold=1 if run.t_min > NEAR_ZERO else run.steps + 1,  # near zero every step is certain
            confidence_threshold=NEVER,
            eos_token_id=None,
            cache_implementation="static" if compiled else None,  # a static cache is what makes `generate` compile
        )
        yield from watch.steps

    return model, denoise


def measure(spec: dict[str, Any]) -> dict[str, Any]:
    """Median step, memory over the weights, and the argmax canvases of a run near temperature zero."""
    shape, folder = SHAPES[spec["shape"]], Path(spec["folder"])
    _touch_libraries(getattr(torch, shape.dtype))
    if spec["job"] == "gesso":
        model, denoise = gesso_engine(folder, shape.dtype)
    else:
        model, denoise = transformers_engine(folder, shape.dtype, spec["experts"], spec["attention"])
    for tensor in (*model.parameters(), *model.buffers()):
        tensor.sum()
    loaded = _resident()
    exact = _reset_peak()
    seconds = [s for s, _ in denoise(_run(shape.vocab, spec["steps"] + 1, 0.4, 0.8))][1:]
    result = _times(seconds) | {
        "over_weights_mb": (_peak() - loaded) / 1e6,
        "loaded_mb": loaded / 1e6,
        "peak_is_of_steps_alone": exact,
    }
    if spec["compare"]:
        run = _run(shape.vocab, spec["compare"], NEAR_ZERO, 2 * NEAR_ZERO)
        result["canvases"] = [canvas for _, canvas in denoise(run)]
    return result


def compiled(spec: dict[str, Any]) -> dict[str, Any]:
    """Median step of `transformers` with its decoder compiled (needs a C++ compiler and minutes of it). Its memory
    is not stated: the compiler's own would count."""
    shape, folder = SHAPES[spec["shape"]], Path(spec["folder"])
    experts = "grouped_mm" if spec["experts"] == "eager" else spec["experts"]  # a loop over experts has no one graph
    try:
        _, denoise = transformers_engine(folder, shape.dtype, experts, "sdpa", compiled=True)
        list(denoise(_run(shape.vocab, 4, 0.4, 0.8)))
        seconds = [s for s, _ in denoise(_run(shape.vocab, spec["steps"] + 2, 0.4, 0.8))][2:]
    except Exception as error:  # noqa: BLE001 - no compiler, or a graph it cannot make: said, and left out
        return {"error": _first_line(error)}
    return _times(seconds)


def probe(spec: dict[str, Any]) -> dict[str, Any]:
    """The fastest setting of `transformers` here: each kind of experts, then the best of them with plain attention."""
    shape = SHAPES[spec["shape"]]
    tried: dict[str, float | str] = {}
    best, fastest = ("eager", "sdpa"), float("inf")
    for number in range(4):
        experts = ("grouped_mm", "eager", "batched_mm", best[0])[number]
        attention = "sdpa" if number < 3 else "eager"
        try:
            _, denoise = transformers_engine(Path(spec["folder"]), shape.dtype, experts, attention)
            run = dataclasses.replace(_run(shape.vocab, 3, 0.4, 0.8), patience=4 * fastest)
            seconds = min(s for s, _ in list(denoise(run))[1:])
        except Exception as error:  # noqa: BLE001 - whatever does not work here is not its fastest setting
            tried[f"{experts}, {attention}"] = _first_line(error)
            continue
        tried[f"{experts}, {attention}"] = round(1e3 * seconds, 1)
        if seconds < fastest:
            best, fastest = (experts, attention), seconds
    return {"experts": best[0], "attention": best[1], "tried_ms": tried}


def machine(spec: dict[str, Any]) -> dict[str, Any]:
    """The matmul rate in the shape's dtype (best of several sizes) and the memory bandwidth of a copy."""
    dtype = getattr(torch, SHAPES[spec["shape"]].dtype)
    rate = 0.0
    for rows, inner, columns in ((256, 256, 4096), (256, 1024, 4096), (1024, 1024, 1024), (2048, 2048, 2048)):
        a, b = torch.randn(rows, inner).to(dtype), torch.randn(columns, inner).to(dtype)
        rate = max(rate, 2 * rows * inner * columns / _fastest(torch.nn.functional.linear, a, b))
    source, target = torch.ones(1 << 27), torch.empty(1 << 27)
    return {"flops": rate, "bandwidth": 2 * 4 * source.numel() / _fastest(target.copy_, source)}


def checkpoint(spec: dict[str, Any]) -> dict[str, Any]:
    write_checkpoint(SHAPES[spec["shape"]], Path(spec["folder"]))
    return {}


def _fastest(work: Callable[..., object], *operands: Tensor) -> float:
    seconds = []
    for _ in range(8):
        started = time.perf_counter()
        work(*operands)
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def _times(seconds: list[float]) -> dict[str, Any]:
    return {"step_ms": 1e3 * statistics.median(seconds), "steps_ms": [round(1e3 * s, 2) for s in seconds]}


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:120]


def _run(vocab: int, steps: int, t_min: float, t_max: float) -> Run:
    random = torch.Generator().manual_seed(1)
    prompt = torch.randint(3, vocab - 3, (1, PROMPT), generator=random)
    return Run(prompt, torch.randint(vocab, (1, CANVAS), generator=random), steps, t_min, t_max)


def _touch_libraries(dtype: torch.dtype) -> None:
    """Page in the matmul and attention code, which is no engine's memory."""
    x = torch.randn(1, 1, 64, 64).to(dtype)
    torch.nn.functional.scaled_dot_product_attention(x @ x, x, x).float().softmax(-1).sort()


def _resident() -> int:
    if (PROC / "statm").exists():
        return int((PROC / "statm").read_text().split()[1]) * resource.getpagesize()
    return _peak()


def _reset_peak() -> bool:
    """Linux forgets the highest resident size on request; elsewhere the peak is that of the whole process."""
    try:
        (PROC / "clear_refs").write_text("5")
    except OSError:
        return False
    return True


def _peak() -> int:
    if (PROC / "status").exists():
        line = next(line for line in (PROC / "status").read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


JOBS = {
    "checkpoint": checkpoint,
    "machine": machine,
    "probe": probe,
    "gesso": measure,
    "transformers": measure,
    "compiled": compiled,
}

if __name__ == "__main__":
    spec = json.loads(sys.argv[1])
    torch.set_num_threads(spec["threads"])
    torch.manual_seed(2)
    print(json.dumps(JOBS[spec["job"]](spec)))
