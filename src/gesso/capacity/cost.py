"""Tells what a step of a replica costs: by its floor on a GPU, or as `gesso bench --json` measured it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from gesso.bench.cells import Cell
from gesso.bench.floor import step_work
from gesso.bench.random_weights import empty_model
from gesso.bench.report import Report, read_report
from gesso.capacity.machines import Gpu
from gesso.config import ModelConfig
from gesso.errors import OptionError
from gesso.models.cache import cache_bytes
from gesso.models.quantization.plan import Quantization
from gesso.models.vision_config import is_stub, read_vision_config
from gesso.models.vision_tower import VisionModel
from gesso.runner.memory import CHUNK

RESERVE = 0.10
"""Share of a GPU's memory that is left for what passes hold, the driver and the allocator."""


@dataclass(frozen=True, slots=True)
class StepCosts:
    """Holds the seconds of a replica's steps."""

    step: Callable[[int], float]
    """Seconds of one denoising step of so many canvases together."""
    prompt_token: float
    """Seconds that the encoding of one prompt token takes."""
    canvas: int
    """Tokens of a canvas."""
    source: str
    """Where the figures are from, for the reader."""
    block: float | None = None
    """Seconds that the encoding of a finished canvas takes; None counts it as so many prompt tokens."""
    request: float = 0.0
    """Seconds of all that a request costs the same processor beside its passes."""

    @property
    def commit(self) -> float:
        """Returns the seconds for which a canvas that is done is encoded, before the next one is begun."""
        return self.canvas * self.prompt_token if self.block is None else self.block


@dataclass(frozen=True, slots=True)
class Memory:
    """Holds the bytes of a replica."""

    weights: float
    request: float
    """Keys and values of one request at its longest."""
    limit: float
    """Bytes that there are for weights and requests together."""

    @property
    def requests(self) -> int:
        """Counts the requests that fit beside the weights."""
        return max(0, int((self.limit - self.weights) // self.request))


def modelled(config: ModelConfig, gpu: Gpu, chosen: Quantization, cell: Cell, efficiency: float) -> StepCosts:
    """Computes the costs from bytes and operations, at a share of what the GPU could do.

    A prompt's tokens cost what as many tokens of a step do.

    Args:
        efficiency: the floor of a step over what it takes.
    """
    model = empty_model(config, torch.bfloat16, chosen)
    known: dict[int, float] = {}

    def step(rows: int) -> float:
        if rows not in known:
            known[rows] = max(gpu.rates.seconds(step_work(model, cell, rows))) / efficiency
        return known[rows]

    rows = max(1, CHUNK // config.canvas_length)
    source = f"the floor of a step on {gpu.name} over {efficiency:g}"
    return StepCosts(step, step(rows) / (rows * config.canvas_length), config.canvas_length, source)


def measured(path: Path, prompt_length: int) -> StepCosts:
    """Reads the costs out of a report of `gesso bench --json`, between whose batches it interpolates.

    Args:
        prompt_length: tokens of the plan's prompts; of each batch, the cell counts whose prompt is nearest.

    Raises:
        OptionError: it is no such report, or has no canvases.
    """
    report = read_report(path, "--measured")
    try:
        return _costs_of(report, path, prompt_length)
    except OptionError:
        raise
    except (KeyError, TypeError, ValueError, ArithmeticError):
        message = f"--measured {path}: its cells lack what a plan needs; measure anew with gesso bench --json"
        raise OptionError(message, option="measured") from None


def _costs_of(report: Report, path: Path, prompt_length: int) -> StepCosts:
    cells: list[Mapping[str, Any]] = [cell for cell in report["cells"] if cell["mode"] == "canvas"]
    if not cells:
        raise OptionError(f"--measured {path}: there are no cells of mode canvas", option="measured")
    known = dict[int, Mapping[str, Any]]()
    for cell in sorted(cells, key=lambda cell: abs(cell["prompt"] - prompt_length)):
        known.setdefault(int(cell["batch"]), cell)
    points = sorted((batch, float(cell["step_ms"]["median"]) / 1e3) for batch, cell in known.items())
    # The first block is the prompt and the steps of one canvas.
    one = min(cells, key=lambda cell: (cell["batch"], -cell["prompt"]))
    steps = one["steps_per_canvas"] * one["step_ms"]["median"] / 1e3
    prompt = max(0.0, one["first_block_s"]["median"] - steps) / (one["prompt"] * one["batch"])

    def step(rows: int) -> float:
        below = max((point for point in points if point[0] <= rows), default=points[0])
        above = min((point for point in points if point[0] >= rows), default=points[-1])
        if below[0] == above[0]:
            # Beyond the last batch a step grows as it did up to there.
            return below[1] * max(1.0, rows / below[0]) if rows > below[0] else below[1]
        share = (rows - below[0]) / (above[0] - below[0])
        return below[1] + share * (above[1] - below[1])

    return StepCosts(step, prompt, int(report["model"]["canvas_length"]), f"measured, {path.name}")


def memory_of(config: ModelConfig, gpu: Gpu, chosen: Quantization, tokens: int) -> Memory:
    """Counts the memory of a replica whose requests reach so many tokens.

    Raises:
        OptionError: the model does not fit the GPU.
    """
    parts: list[nn.Module] = [empty_model(config, torch.bfloat16, chosen)]
    if config.vision_config is not None and not is_stub(config.vision_config):  # which is never packed
        with torch.device("meta"):
            parts.append(VisionModel(read_vision_config(config.vision_config), config.hidden_size).to(torch.bfloat16))
    weights = float(sum(tensor.nbytes for part in parts for tensor in part.state_dict().values()))
    request = float(cache_bytes(config, torch.bfloat16, tokens, max(CHUNK, config.canvas_length)))
    memory = Memory(weights, request, (1 - RESERVE) * gpu.memory)
    if memory.requests < 1:
        raise OptionError(
            f"--gpu {gpu.name}: {weights / 1e9:.1f} GB of weights and {request / 1e9:.2f} GB of one request do not fit "
            f"{memory.limit / 1e9:.1f} GB",
            option="gpu",
            hint="choose another --gpu, fewer bits with --format, or shorter --prompt and --output",
        )
    return memory
