"""Makes what one step needs: the model, the batch, the rate and the loss, all functions of recipe and step number."""

import dataclasses
import math
from functools import partial

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh

from gesso.errors import CheckpointError, OptionError
from gesso.models.adapter_files import load_adapter
from gesso.models.adapters import adapted_layers, adapter_parameters, attach
from gesso.models.diffusion_gemma import DiffusionGemma, initialise
from gesso.models.loading import load_folder
from gesso.models.quantization.plan import refuse_quantized
from gesso.nn.host_memory import keep_freed_memory
from gesso.nn.separate_lora import SeparateLoraExperts, SeparateLoraLinear
from gesso.train.batch import Batch, make_batch, make_causal_batch
from gesso.train.config import CanvasWidth, TrainConfig
from gesso.train.deepen import deepen, deepens
from gesso.train.distributed import ProcessGroup
from gesso.train.expert_parallel import hold_experts, own_experts
from gesso.train.forward import Encoded
from gesso.train.recipe import Recipe
from gesso.train.two_pass import canvas_loss, losses
from gesso.train.vision import BatchImages


def learning_rate(config: TrainConfig, step: int, spent: float = 0.0) -> float:
    """Returns the rate of a step: linear warm-up, then cosine to zero at `config.steps`.

    Args:
        step: counted from 0.
        spent: share of `config.within_minutes` that is over: where fewer of the steps are done, the rate is that of the
            step that would be due.
    """
    due = max(step, spent * config.steps)
    if due < config.warmup_steps:
        return config.learning_rate * min(1.0, (due + 1) / config.warmup_steps)
    progress = (due - config.warmup_steps) / max(1, config.steps - config.warmup_steps)
    return config.learning_rate * 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))


class LossModule(nn.Module):
    """Computes the loss as one module, which is what FSDP wraps: parameters outside the blocks are gathered while it
    runs."""

    def __init__(
        self, model: DiffusionGemma, config: TrainConfig, group: ProcessGroup, images: BatchImages | None = None
    ) -> None:
        """
        Args:
            images: makes the embeddings of a batch's images; None where no batch has any.
        """
        super().__init__()
        self.model = model
        self.config = config
        self.images = images
        self.uniform = group.size > 1
        self.context = group.context

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Returns the mean denoiser and encoder loss of `batch`, nats a token; where sequences lie over several
        processes, this one's part of them."""
        config, device = self.config, batch.tokens_N.device.type
        with torch.autocast(device, torch.bfloat16, enabled=config.is_half(device)):
            loss = losses(
                self.model,
                batch,
                () if self.images is None or not batch.images else self.images.embeddings(batch),
                checkpointing=config.gradient_checkpointing,
                denoiser=(config.denoiser_loss_weight > 0 and not batch.causal) or not self.training,
                encoder=config.encoder_loss_weight > 0,
                uniform=self.uniform,
                context=self.context,
                of_canvases=partial(self.canvas_loss, batch),
            )
        return loss.denoiser, loss.encoder

    def canvas_loss(self, batch: Batch, encoded: Encoded) -> Tensor:
        """Returns the mean loss of the canvases, nats a token, or this process's part of it.

        Args:
            encoded: what each canvas attends to.
        """
        checkpointing = self.config.gradient_checkpointing
        return canvas_loss(self.model, batch, encoded, checkpointing=checkpointing, uniform=self.uniform)


def start_model(recipe: Recipe, device: torch.device, mesh: DeviceMesh | None = None) -> DiffusionGemma:
    """Makes the model that a run begins with: random weights, a checkpoint's, the same with further layers
    (`gesso.train.deepen`), or a checkpoint's with deltas, fresh ones or an adapter's.

    Where the causal pass learns alone, what it does not go through stays as it is.

    Args:
        mesh: processes over which experts will lie: each reads its own ones of a checkpoint alone.

    Raises:
        CheckpointError: the checkpoint holds a model of another shape.
        OptionError: all weights of a quantized checkpoint are to be trained, or nothing is left to train.
    """
    model = _start_model(recipe, device, mesh)
    if not recipe.train.denoiser_loss_weight:
        freeze_denoiser(model)
        if recipe.adapter is not None and not any(parameter.requires_grad for parameter in model.parameters()):
            named = ", ".join(recipe.adapter.targets)
            raise OptionError(f"the causal pass goes through none of the targets: {named}", option="target")
    return model


def freeze_denoiser(model: DiffusionGemma) -> None:
    """Leaves as it is what only canvases go through: the self-conditioning, and deltas of the decoder alone."""
    model.self_conditioning.requires_grad_(False)
    for _, layer in adapted_layers(model):
        if isinstance(layer, SeparateLoraLinear | SeparateLoraExperts):
            for matrix in layer.matrices(causal=False):
                matrix.requires_grad_(False)


def _start_model(recipe: Recipe, device: torch.device, mesh: DeviceMesh | None) -> DiffusionGemma:
    if device.type == "cpu":
        keep_freed_memory()
    if recipe.start is None:
        model = DiffusionGemma(recipe.model).to(device)
        initialise(model, recipe.train.seed)
        return model
    exact = recipe.adapter is None or recipe.train.precision == "float32"
    own = None if mesh is None else own_experts(recipe.model.num_experts, mesh.get_local_rank(), mesh.size())
    dtype = "float32" if exact else "auto"
    model = load_folder(recipe.start, str(device), dtype, recipe.quantize, experts=own)
    if recipe.adapter is None and deepens(model.config, recipe.model):
        deepen(model, len(recipe.model.layers))
    if mesh is not None:
        hold_experts(model, mesh)
    # Neither the canvas nor the window is in the weights: a recipe may have its own.
    names = {field.name for field in dataclasses.fields(recipe.model)} - {"canvas_length", "sliding_window"}
    if differing := [name for name in sorted(names) if getattr(model.config, name) != getattr(recipe.model, name)]:
        raise CheckpointError(
            f"{recipe.start} holds a model of another shape than recipe {recipe.name!r}: {', '.join(differing)}"
        )
    model.config = recipe.model
    if recipe.adapter is None:
        refuse_quantized(model, "training all weights")
        return model.train().requires_grad_(True)
    torch.manual_seed(recipe.train.seed)
    if recipe.adapter_start is None:
        attach(model, recipe.adapter)
        return model.train()
    load_adapter(model, recipe.adapter_start)
    for parameter in adapter_parameters(model).values():
        parameter.requires_grad_(True)
    return model.train()


def pick_width(recipe: Recipe, generator: torch.Generator) -> CanvasWidth:
    """Draws the canvas width of a step, by share."""
    draw = torch.rand((), generator=generator).item()
    for width in recipe.train.narrow:
        if draw < width.share:
            return width
        draw -= width.share
    return CanvasWidth(recipe.model.canvas_length, recipe.train.batch_size, 1.0, recipe.train.canvases_per_example)


def step_batch(recipe: Recipe, step: int) -> Batch:
    """Makes the whole batch of a step, the same in every process."""
    config = recipe.train
    generator = torch.Generator().manual_seed((config.seed << 32) + step)
    causal = step < config.causal_steps
    if not causal and config.causal_share:
        causal = torch.rand((), generator=generator).item() < config.causal_share
    if causal:
        conversations = recipe.examples.batch(step, config.causal_batch_size, None)
        return make_causal_batch(conversations, prompt_loss=config.prompt_loss)
    width = pick_width(recipe, generator)
    conversations = recipe.examples.batch(step, width.batch_size, width.canvas_length)
    return make_batch(
        conversations,
        config,
        canvas_length=width.canvas_length,
        vocab_size=recipe.model.vocab_size,
        eos_token_id=recipe.model.eos_token_id,
        generator=generator,
        canvases_per_example=width.canvases_per_example,
        jump=recipe.distill,
    )


def micro_batches(batch: Batch, group: ProcessGroup, size: int | None) -> list[tuple[Batch, float, float]]:
    """Returns this process's micro-batches, each with its share of the batch's canvas and target tokens.

    Every process runs as many, since they meet in every layer; one that has fewer repeats its first for nothing.
    Processes that have the parts of the same sequences have the same ones.

    Args:
        size: examples of a micro-batch; None takes all of the process's at once.
    """
    canvas_tokens, target_tokens = max(1, batch.canvas_tokens), max(1, batch.target_tokens)
    parts = batch.split(group.batch_parts)
    rounds = 1 if size is None else max(-(-len(part.lengths) // size) for part in parts)
    mine = parts[group.batch_part] if group.batch_part < len(parts) else None
    split = mine.split(rounds) if mine is not None else []
    shares = [(p, p.canvas_tokens / canvas_tokens, p.target_tokens / target_tokens) for p in split]
    idle = split[0] if split else parts[0]
    return shares + [(idle, 0.0, 0.0)] * (rounds - len(shares))
