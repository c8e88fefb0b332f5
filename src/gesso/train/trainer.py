"""The training loop.

A step is a function of (weights, optimiser state, seed, step number): examples, canvases, times and noise are drawn
from generators seeded by the last two. So a run that was cut off and resumed from a checkpoint goes on bit by bit as
if it had not been.
"""

import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from gesso.errors import TrainingError
from gesso.models.diffusion_gemma import DiffusionGemma, initialise
from gesso.models.loading import load_folder, pick_device
from gesso.train.batch import make_batch
from gesso.train.checkpoint import checkpoints, resume, save_checkpoint
from gesso.train.config import CanvasWidth, Recipe, TrainConfig
from gesso.train.forward import losses


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One line of `metrics.jsonl`: means since the line before."""

    step: int
    denoiser_loss: float
    encoder_loss: float
    learning_rate: float
    gradient_norm: float
    tokens_per_second: float
    """Canvas and encoder tokens trained on."""
    seconds: float
    """Since this process started training."""


def learning_rate(config: TrainConfig, step: int) -> float:
    """Linear warm-up, then cosine to zero at `config.steps`; `step` counts from 0."""
    if step < config.warmup_steps:
        return config.learning_rate * (step + 1) / config.warmup_steps
    progress = (step - config.warmup_steps) / max(1, config.steps - config.warmup_steps)
    return config.learning_rate * 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))


def make_optimizer(model: DiffusionGemma, config: TrainConfig) -> torch.optim.AdamW:
    """AdamW; parameter order is the model's, so that checkpoints name states by parameter."""
    groups = [{"params": [p], "weight_decay": config.weight_decay if p.dim() > 1 else 0.0} for p in model.parameters()]
    return torch.optim.AdamW(groups, lr=0.0, betas=(config.beta1, config.beta2), foreach=False, fused=True)


def train(
    recipe: Recipe,
    out: Path,
    *,
    device: str = "auto",
    stop_at: int | None = None,
    max_minutes: float | None = None,
    on_step: Callable[[int, StepRecord | None], None] = lambda step, record: None,
) -> Path:
    """Run a recipe into `out`, resuming from the newest checkpoint there; returns the last checkpoint.

    Args:
        stop_at: end after this step instead of the recipe's last (its schedule is not changed).
        max_minutes: write a checkpoint and end after so many minutes.
        on_step: called after every step, with a record every `log_every` steps.

    Raises:
        TrainingError: the loss is not a number, or a checkpoint cannot be written.
    """
    config, started = recipe.train, time.monotonic()
    place = pick_device(device)
    out.mkdir(parents=True, exist_ok=True)
    model = _start_model(recipe, place)
    optimizer = make_optimizer(model, config)
    found = checkpoints(out)
    first = resume(recipe, model, optimizer, found[-1]) if found else 0
    last = min(config.steps, stop_at or config.steps)
    path = found[-1] if found else out
    totals, since, tokens, steps = torch.zeros(3), time.monotonic(), 0, 0
    for step in range(first, last):
        denoiser, encoder, norm, count = _step(recipe, model, optimizer, step)
        totals += torch.tensor([denoiser, encoder, norm])
        tokens += count
        steps += 1
        if not math.isfinite(denoiser + encoder + norm):
            raise TrainingError(f"step {step + 1}: the loss or gradient is not a number; last checkpoint: {path}")
        record = None
        done = step + 1
        if done % config.log_every == 0 or done == last:
            means = totals / steps
            now = time.monotonic()
            record = StepRecord(
                step=done,
                denoiser_loss=round(means[0].item(), 5),
                encoder_loss=round(means[1].item(), 5),
                learning_rate=learning_rate(config, step),
                gradient_norm=round(means[2].item(), 4),
                tokens_per_second=round(tokens / (now - since), 1),
                seconds=round(now - started, 1),
            )
            _append(out / "metrics.jsonl", record)
            totals, since, tokens, steps = torch.zeros(3), now, 0, 0
        out_of_time = max_minutes is not None and time.monotonic() - started > 60 * max_minutes
        if done % config.checkpoint_every == 0 or done == last or out_of_time:
            path = save_checkpoint(recipe, model, optimizer, done, out)
        on_step(done, record)
        if out_of_time:
            break
    return path


def _start_model(recipe: Recipe, device: torch.device) -> DiffusionGemma:
    if recipe.start is not None:
        return load_folder(recipe.start, str(device), "float32").train().requires_grad_(True)
    model = DiffusionGemma(recipe.model).to(device)
    initialise(model, recipe.train.seed)
    return model


def _pick_width(recipe: Recipe, generator: torch.Generator) -> CanvasWidth:
    """The canvas width of a step, drawn by share."""
    draw = torch.rand((), generator=generator).item()
    for width in recipe.train.narrow:
        if draw < width.share:
            return width
        draw -= width.share
    return CanvasWidth(recipe.model.canvas_length, recipe.train.batch_size, 1.0, recipe.train.canvases_per_example)


def _step(
    recipe: Recipe, model: DiffusionGemma, optimizer: torch.optim.Optimizer, step: int
) -> tuple[float, float, float, int]:
    """One optimiser step; returns denoiser loss, encoder loss, gradient norm and tokens trained on."""
    config = recipe.train
    generator = torch.Generator().manual_seed((config.seed << 32) + step)
    width = _pick_width(recipe, generator)
    batch = make_batch(
        recipe.data.batch(step, width.batch_size, width.canvas_length),
        canvas_length=width.canvas_length,
        vocab_size=recipe.model.vocab_size,
        eos_token_id=recipe.model.eos_token_id,
        self_conditioning_probability=config.self_conditioning_probability,
        generator=generator,
        canvases_per_example=width.canvases_per_example,
    ).to(model.device)
    for group in optimizer.param_groups:
        group["lr"] = learning_rate(config, step)
    with torch.autocast(model.device.type, torch.bfloat16, enabled=config.precision == "bfloat16"):
        loss = losses(model, batch)
    optimizer.zero_grad(set_to_none=True)
    (loss.denoiser + config.encoder_loss_weight * loss.encoder).backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), config.gradient_clip)
    optimizer.step()
    return loss.denoiser.item(), loss.encoder.item(), norm.item(), batch.tokens_N.numel() + batch.canvas_BC.numel()


def _append(path: Path, record: StepRecord) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({name: getattr(record, name) for name in record.__slots__}) + "\n")
