"""Prints the table behind `--estimate`. Imported when it is asked for."""

import torch
from rich.console import Console
from rich.table import Table

from gesso.cli.output import format_bytes
from gesso.config import LoraConfig, ModelConfig
from gesso.generation import GenerationConfig
from gesso.models.describe import parameters
from gesso.models.dtype import DTYPES, pick_dtype
from gesso.models.quantization.plan import QLORA, Quantization
from gesso.nn.grouped_products import device_groups
from gesso.train.config import TrainConfig
from gesso.train.context_parallel import check_context_parallel
from gesso.train.estimate import Estimate, Workload, estimate
from gesso.train.estimate_vision import ImageLoad
from gesso.train.expert_parallel import check_expert_parallel
from gesso.train.on_policy import attempt_rules

LABELS = {
    "weights": "weights",
    "adapter": "adapter",
    "optimizer": "optimizer",
    "activations": "activations",
    "gradients": "gradients (as activations go)",
    "workspace": "logits and workspace",
    "vision": "vision tower and images",
    "gathered": "whole for the time of a layer",
}


def print_estimate(
    config: ModelConfig,
    train: TrainConfig,
    device: torch.device,
    *,
    tokens: int,
    answer: int,
    adapter: LoraConfig | None,
    quantize: Quantization | None,
    generation: GenerationConfig,
    images: ImageLoad | None = None,
    teacher: bool = False,
) -> int:
    """Prints what one step of these settings takes at its peak, examples of `tokens` tokens each, those of `images`
    among them.

    Args:
        generation: of the model, which says how many steps of a canvas are trained with `on_policy`.
        teacher: whether a second whole model is held, which the run distils from.

    Raises:
        OptionError: experts or sequences that cannot lie over so many processes.
    """
    total, _ = parameters(config)
    dtype = pick_dtype("auto", device, total)
    if adapter is not None and train.precision == "float32":
        dtype = torch.float32
    if adapter is None:
        dtype = torch.bfloat16 if train.is_half(device.type) else torch.float32
    check_expert_parallel(train.expert_parallel, config.num_experts)
    processes = train.expert_parallel if train.expert_parallel > 1 else train.context_parallel
    check_context_parallel(train.context_parallel, processes)
    share = -(-train.batch_size * train.context_parallel // processes)
    examples = min(share, train.micro_batch_size or share)
    passes = attempt_rules(generation).attempt_steps if train.on_policy else 1
    found = estimate(
        config,
        Workload(
            examples=examples,
            tokens=tokens,
            answer=answer,
            canvas_length=config.canvas_length,
            canvases_per_example=train.canvases_per_example * passes,
            gradient_checkpointing=train.gradient_checkpointing,
            device_type=device.type,
            grouped=device.type == "cuda" and train.is_half("cuda") and device_groups(device),
            accumulates=examples < share,
            expert_parallel=train.expert_parallel,
            context_parallel=train.context_parallel,
            images=images,
            canvases=train.denoiser_loss_weight > 0,
            teacher=teacher,
        ),
        dtype=dtype,
        adapter=adapter,
        quantize=quantize,
        optimizer=train.optimizer,
    )
    method = "full" if adapter is None else "qlora" if quantize == QLORA else "lora"
    method += " over packed weights" if quantize not in (None, QLORA) else ""
    names = {kind: name for name, kind in DTYPES.items()}
    print(
        f"{_count(total)} parameters, {method}, {examples} x {tokens} tokens at a time, "
        f"{f'canvas {config.canvas_length}' if train.denoiser_loss_weight else 'no canvases'}, {names[dtype]}"
        + (", gradient checkpointing" if train.gradient_checkpointing else "")
        + (", beside its teacher" if teacher else "")
        + ("" if images is None else f", up to {images.images} x {images.soft_tokens} of images each")
        + ("" if processes == 1 else f", each of {processes} processes")
        + ("" if train.context_parallel == 1 else f", {train.context_parallel} for each sequence")
    )
    Console(highlight=False).print(_table(found))
    return 0


def _table(found: Estimate) -> Table:
    table = Table(box=None, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for name, label in LABELS.items():
        if name in ("vision", "gathered") and not getattr(found, name):
            continue
        table.add_row(label, format_bytes(getattr(found, name), 2))
    table.add_row("at the peak", format_bytes(found.total, 2), style="bold")
    return table


def _count(number: int) -> str:
    return f"{number / 1e9:.1f} billion" if number >= 1e9 else f"{number / 1e6:.1f} million"
