"""Times a training step of the recipe `skills` on one thread, with compiled kernels beside array operations.

    python benchmarks/train_step.py [--examples 48] [--canvases 3] [--width 32] [--rounds 4] [--parts] [--goal 1.25]
        [--precision bfloat16] [--causal] [--start skills]

One batch (5.5 million parameters, hidden 192, 6 layers, 8 experts), all weights trained with the recipe's Muon:
forward, backward, clipping and the optimiser's step. Both kinds take turns, and the least processor time of each
counts, so that it can be measured beside other work. `--parts` also leaves out one kind of kernel at a time;
`--causal` lets the causal pass learn alone, from as many whole answers as there would be canvases; `--start` begins
with the weights of a model in the place of random ones. As in a run, denormal numbers are zero, but for one kind of
step that keeps them. The ceiling is the step's products at the rate of one of its largest. The last line is JSON.
"""

import argparse
import contextlib
import dataclasses
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType

import torch
from rich.console import Console
from rich.table import Table
from torch.utils.flop_counter import FlopCounterMode

from gesso.models import block
from gesso.models.hub import resolve
from gesso.nn import gated_gelu, linear, norm, training_experts, training_norms
from gesso.nn.denormals import flushed_denormals
from gesso.train import attention, forward
from gesso.train.config import CanvasWidth, Precision
from gesso.train.distributed import ProcessGroup
from gesso.train.optimizer import make_optimizer, set_rate
from gesso.train.recipes.skills import skills
from gesso.train.step import LossModule, start_model, step_batch

PARTS: dict[str, list[tuple[ModuleType, str]]] = {
    "norms, sums and turns": [(norm, "serves"), (training_norms, "serves"), (block, "serves")],
    "gelu(gate) * up": [(gated_gelu, "serves"), (gated_gelu, "serves_narrow")],
    "experts in one": [(training_experts, "serves"), (training_experts, "serves_narrow")],
    "softmax": [(attention, "takes")],
    "heads laid out in one pass": [(forward, "lays_out")],
    "results of narrow products in fp32": [(linear, "narrows")],
    "blocks in bfloat16": [(block, "trains_narrow")],
}
"""Where each kind of kernel is asked for."""
PRODUCT = 4608, 192, 256
KEPT = "compiled, denormal numbers kept"
RATE = 1e-9
"""The learning rate: so small that every step does the same work."""


@contextmanager
def left_out(names: list[str]) -> Iterator[None]:
    """Leaves kinds of kernels out."""
    places = [place for name in names for place in PARTS[name]]
    before = [getattr(module, name) for module, name in places]
    for module, name in places:
        setattr(module, name, lambda *_: False)
    try:
        yield
    finally:
        for (module, name), own in zip(places, before, strict=True):
            setattr(module, name, own)


def make_step(width: CanvasWidth, precision: Precision, *, causal: bool, start: str | None) -> Callable[[], float]:
    """One step of the recipe's first batch; it returns its loss."""
    recipe = skills()
    settings = dataclasses.replace(
        recipe.train,
        narrow=(width,),
        precision=precision,
        causal_steps=int(causal),
        causal_batch_size=width.batch_size * width.canvases_per_example,
    )
    recipe = dataclasses.replace(recipe, train=settings, start=None if start is None else resolve(start))
    device = torch.device("cpu")
    model = start_model(recipe, device)
    losses = LossModule(model, recipe.train, ProcessGroup(device))
    optimizer = make_optimizer(model, recipe.train)
    set_rate(optimizer, RATE)
    batch = step_batch(recipe, 0)

    def step() -> float:
        denoiser, encoder = losses(batch)
        loss = denoiser + recipe.train.encoder_loss_weight * encoder
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.train.gradient_clip)
        optimizer.step()
        optimizer.zero_grad()
        return float(loss.detach())

    return step


def seconds(work: Callable[[], object]) -> float:
    """Processor time of a call."""
    before = time.process_time()
    work()
    return time.process_time() - before


def ceiling(step: Callable[[], float], dtype: torch.dtype) -> float:
    """Seconds that the step's products take at the rate of one of its largest."""
    with FlopCounterMode(display=False) as counter:
        step()
    rows, inner, columns = PRODUCT
    x, weight = torch.randn(rows, inner).to(dtype), torch.randn(columns, inner).to(dtype)
    took = min(seconds(lambda: x @ weight.T) for _ in range(30))
    return float(counter.get_total_flops() * took / (2 * rows * inner * columns))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name, value in (("examples", 48), ("canvases", 3), ("width", 32), ("rounds", 4)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--parts", action="store_true")
    parser.add_argument("--causal", action="store_true")
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--start", metavar="MODEL")
    parser.add_argument("--goal", type=float, default=1.25)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    width = CanvasWidth(asked.width, asked.examples, share=1.0, canvases_per_example=asked.canvases)
    step = make_step(width, asked.precision, causal=asked.causal, start=asked.start)
    kinds = {"compiled": [], KEPT: [], "array operations": list(PARTS)}
    if asked.parts:
        kinds |= {f"without {name}": [name] for name in PARTS}
    taken: dict[str, list[float]] = {name: [] for name in kinds}
    losses: dict[str, float] = {}
    step()  # compiles
    for _ in range(asked.rounds):
        for name, without in kinds.items():
            with left_out(without), contextlib.nullcontext() if name == KEPT else flushed_denormals():
                before = time.process_time()
                losses[name] = step()
                taken[name].append(time.process_time() - before)
    least = {name: min(times) for name, times in taken.items()}
    most = ceiling(step, getattr(torch, asked.precision))
    table = Table("", "s of processor", "loss", box=None)
    for name, took in least.items():
        table.add_row(name, f"{took:.3f}", f"{losses[name]:.6f}")
    table.add_row("ceiling: products alone", f"{most:.3f}", "")
    Console().print(table)
    speedup = least["array operations"] / least["compiled"]
    found = {
        "start": asked.start,
        "precision": asked.precision,
        "causal": asked.causal,
        "step_s": least,
        "losses": losses,
        "ceiling_s": most,
        "speedup": speedup,
        "goal": asked.goal,
    }
    print(json.dumps(found | {"met": speedup >= asked.goal}))


if __name__ == "__main__":
    main()
