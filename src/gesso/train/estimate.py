"""Estimates the memory a training run will take, from the model's config alone.

The passes are run once without numbers, on PyTorch's meta device, with the run's own code: what autograd keeps for the
backward pass is counted storage by storage. Nothing is loaded, and nothing is as large as it says.
"""

import dataclasses
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gesso.config import LayerConfig, LoraConfig, ModelConfig
from gesso.models.adapters import attach
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.quantization.plan import Quantization, replace_layers
from gesso.nn.cross_entropy import rows_at_a_time
from gesso.nn.grouped_products import aligned, counted_in_groups
from gesso.nn.quant.base import GROUPS_TILE
from gesso.nn.quant.layers import QuantizedExperts, QuantizedLinear
from gesso.train import encoder_rows, forward, two_pass
from gesso.train.batch import Batch
from gesso.train.config import Optimizer
from gesso.train.context_parallel import ContextGroup
from gesso.train.estimate_parts import (
    gathered_bytes,
    grouped_bytes,
    half_copies,
    held_buffers,
    moment_bytes,
    part_of,
    probability_bytes,
    routed_bytes,
    saved_bytes,
)
from gesso.train.estimate_vision import ImageLoad, vision_bytes
from gesso.train.step import freeze_denoiser

LOGIT_COPIES = 3
"""fp32 copies of a chunk's logits: scores, what bends them, and one that an operation makes on the way."""
DEQUANTIZED_BYTES = 10
"""Bytes for each weight of the layer that is being read back: codes, indices, levels and the product."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Describes what one process takes through the model at a time."""

    examples: int
    tokens: int
    """Tokens of prompt and answer, an example."""
    answer: int
    """Tokens of these that the encoder learns to predict."""
    canvas_length: int
    canvases_per_example: int = 1
    gradient_checkpointing: bool = False
    device_type: str = "cpu"
    grouped: bool = False
    """Whether the device multiplies all experts of a layer at once (`gesso.nn.grouped_products`)."""
    accumulates: bool = False
    """Whether a step is several such loads: gradients of the first are there while the next one runs."""
    expert_parallel: int = 1
    """Processes over which the experts lie; 1 is one process that holds everything."""
    context_parallel: int = 1
    """Processes over which each sequence lies. A run has as many at least, and parameters lie over all of them."""
    images: ImageLoad | None = None
    """Images of an example; None where there are none. Their soft tokens are among its `tokens`."""
    canvases: bool = True
    """Whether canvases are trained on; else the causal pass learns alone."""
    teacher: bool = False
    """Whether a second whole model is held in fp32, which the run distils from."""

    @property
    def processes(self) -> int:
        """Returns the processes of the run."""
        return max(self.expert_parallel, self.context_parallel)

    @property
    def groups(self) -> bool:
        """Says whether all experts of a layer are multiplied at once: those that lie apart go one by one."""
        return self.grouped and self.expert_parallel == 1

    @property
    def context(self) -> ContextGroup | None:
        """Returns the process with most to do among those that share a sequence."""
        return None if self.context_parallel == 1 else ContextGroup(0, self.context_parallel)

    @property
    def own_tokens(self) -> int:
        """Returns the tokens of an example that one process takes."""
        return self.tokens if self.context is None else self.context.own_lengths([self.tokens])[0]

    @property
    def own_width(self) -> int:
        """Returns the columns of a canvas that one process takes."""
        return -(-self.canvas_length // self.context_parallel)

    @property
    def canvas_rows(self) -> int:
        """Returns the columns of all canvases that one process trains on."""
        return self.examples * self.canvases_per_example * self.own_width if self.canvases else 0


@dataclass(frozen=True, slots=True)
class Estimate:
    """Counts the bytes at the peak of a step, of one process."""

    weights: int
    adapter: int
    optimizer: int
    gradients: int
    activations: int
    """What is kept for the backward pass."""
    workspace: int
    """Logits of one chunk or probabilities of attention that are made in memory, a layer's weights read back from 4
    bits, and rows on their way to experts and back."""
    accumulates: bool = False
    vision: int = 0
    """Vision tower, projector and embeddings of images, with what training them takes."""
    gathered: int = 0
    """What lies over several processes and is whole for the time of a layer or of a pass."""

    @property
    def total(self) -> int:
        """Returns the sum. Gradients grow while activations are freed, so the larger of the two counts where a step is
        one load."""
        held = self.weights + self.adapter + self.optimizer + self.workspace + self.vision + self.gathered
        if self.accumulates:
            return held + self.activations + self.gradients
        return held + max(self.activations, self.gradients)


def estimate(
    config: ModelConfig,
    work: Workload,
    *,
    dtype: torch.dtype,
    adapter: LoraConfig | None = None,
    quantize: Quantization | None = None,
    optimizer: Optimizer = "adamw",
) -> Estimate:
    """Estimates the bytes of a step with this workload.

    Args:
        dtype: of frozen weights and of the activations. Weights that are trained are fp32.
        quantize: how frozen weights are packed.

    Raises:
        OptionError: a target that matches no layer, or a layer that cannot be held in 4 bits.
    """
    fits = aligned((config.hidden_size, config.moe_intermediate_size), torch.bfloat16)
    work = dataclasses.replace(work, grouped=work.grouped and fits)
    with torch.device("meta"):
        model = DiffusionGemma(config).to(dtype)
        if quantize is not None:
            replace_layers(model, quantize)
        if adapter is not None:
            attach(model, adapter)
    if not work.canvases:
        freeze_denoiser(model)
    model.train()
    parts, apart = work.processes, work.expert_parallel > 1
    learned = {name: part_of(p, parts) for name, p in model.named_parameters() if p.requires_grad}
    trainable = sum(learned.values())
    if adapter is None:
        weights, adapter_bytes = 4 * sum(part_of(p, parts) for p in model.parameters()), 0
        if dtype != torch.float32:
            kept = 1 if work.device_type != "cuda" else 0 if work.gradient_checkpointing else 1 + work.canvases
            weights += half_copies(model, work.expert_parallel, kept)
    else:
        adapter_bytes = sum(learned[n] * p.itemsize for n, p in model.named_parameters() if n in learned)
        weights = sum(part_of(p, parts) * p.itemsize for p in model.parameters() if not p.requires_grad)
        weights += sum(count * buffer.itemsize for buffer, count in held_buffers(model, work.expert_parallel))
    if work.teacher:
        weights += 4 * sum(p.numel() for p in model.parameters())
    logits = _logits(model, work)
    rows = max(work.examples * work.own_tokens, work.canvas_rows)
    return Estimate(
        weights=weights,
        adapter=adapter_bytes,
        optimizer=moment_bytes(model.named_parameters(), optimizer, parts),
        gradients=4 * trainable,
        activations=_activations(model, work, logits),
        workspace=max(logits, 0 if work.gradient_checkpointing else probability_bytes(config, work))
        + _read_back(model, work)
        + routed_bytes(model, rows, work.expert_parallel),
        accumulates=work.accumulates,
        vision=0
        if work.images is None
        else vision_bytes(work.images, config.hidden_size, work.examples, dtype, optimizer),
        gathered=gathered_bytes(model, parts, 4 if adapter is None else None, experts=not apart),
    )


def _logits(model: DiffusionGemma, work: Workload) -> int:
    """Bytes of the logits that are there at a time."""
    config, device = model.config, work.device_type
    answer = min(work.answer, work.own_tokens)
    scored = max(work.examples * answer, work.canvas_rows)
    training = LOGIT_COPIES * min(scored, rows_at_a_time(device, config.vocab_size))
    # The first pass scores without gradients: logits and probabilities of its canvases.
    first = 2 * min(scored, two_pass.logit_rows(config)) if work.canvases else 0
    return 4 * config.vocab_size * max(training, first)


def _read_back(model: DiffusionGemma, work: Workload) -> int:
    """Bytes of the packed weights that are read back at a time: of a matrix, or of all experts of a layer."""
    sizes = [0]
    for module in model.modules():
        if isinstance(module, QuantizedLinear):
            sizes.append(DEQUANTIZED_BYTES * module.in_features * module.out_features)
        elif isinstance(module, QuantizedExperts):
            for out, into in module.shapes:
                every = module.num_experts * out * into if work.groups else 0
                read = min(every, GROUPS_TILE) if every else out * into
                sizes.append(2 * every + DEQUANTIZED_BYTES * read)
    return max(sizes)


def _activations(model: DiffusionGemma, work: Workload, logits: int) -> int:
    """Bytes that the encoder's and the denoiser's passes keep: run for one layer of each kind, the rest are alike."""
    kinds: dict[LayerConfig, list[int]] = {}
    for i, layer in enumerate(model.config.layers):
        kinds.setdefault(layer, []).append(i)
    first = next(iter(kinds.values()))[0]
    one = _kept(_with_layers(model, [first]), work)
    two = {layers[0]: _kept(_with_layers(model, [first, layers[0]]), work) for layers in kinds.values()}
    each = {i: (encoder - one[0], denoiser - one[1]) for i, (encoder, denoiser) in two.items()}
    outside = sum(one) - sum(each[first])
    if not work.gradient_checkpointing:
        return outside + sum(len(layers) * sum(each[layers[0]]) for layers in kinds.values())
    # Of every layer what goes in and what it hands to the canvases. A layer's own is there while it is computed
    # again, in one of its passes at a time, and by then the logits are gone; with the probabilities of attention what
    # comes behind attention is not there yet, or gone.
    again = max(probability_bytes(model.config, work), *(max(passes) for passes in each.values()))
    return outside + _handed_on(model, work) + max(0, again - logits)


def _handed_on(model: DiffusionGemma, work: Workload) -> int:
    """Bytes that checkpointing keeps: the residual before each layer, and its keys and values with their gradients."""
    config, size = model.config, model.dtype.itemsize
    canvases = work.examples * work.canvases_per_example
    residual = (work.examples * work.own_tokens + work.canvas_rows) * config.hidden_size
    (group,) = encoder_rows.group_rows([work.tokens])
    longest = group.longest if work.context is None else work.own_tokens
    rows = work.examples + (canvases if work.canvases_per_example > 1 and work.canvases else 0)
    keys = sum(2 * rows * longest * layer.num_key_value_heads * layer.head_dim for layer in config.layers)
    with_gradients = 2 if work.canvases else 1
    return size * (len(config.layers) * residual + with_gradients * keys)


def _with_layers(model: DiffusionGemma, layers: list[int]) -> DiffusionGemma:
    """A model of some of the layers; it shares them."""
    with torch.device("meta"):
        part = DiffusionGemma(dataclasses.replace(model.config, layers=tuple(model.config.layers[i] for i in layers)))
    part.layers = nn.ModuleList([model.layers[i] for i in layers])
    part.vocabulary, part.norm, part.self_conditioning = model.vocabulary, model.norm, model.self_conditioning
    return part.train()


def _kept(model: DiffusionGemma, work: Workload) -> tuple[int, int]:
    """Bytes of what autograd keeps of the encoder's and of the denoiser's pass, parameters aside."""
    batch, config = _meta_batch(work), model.config
    rows = work.examples * work.own_tokens, work.canvas_rows
    beside = [len(config.layers) * grouped_bytes(config, count) * work.groups for count in rows]
    way = counted_in_groups() if work.groups else nullcontext()
    with way, saved_bytes(model) as counted:
        encoded = forward.encode(model, batch, context=work.context).repeat(work.canvases_per_example)
        encoder = counted()
        if not work.canvases:
            return encoder + beside[0], 0
        count = len(batch.noisy_BC)
        self_conditioning = torch.zeros(count * work.own_width, config.hidden_size, device="meta", dtype=model.dtype)
        forward.denoise(model, batch.noisy_BC, batch.starts_B, encoded, self_conditioning)
    denoiser = counted() - encoder
    return encoder + beside[0], denoiser + beside[1]


def _meta_batch(work: Workload) -> Batch:
    canvases = work.examples * work.canvases_per_example
    shape = (canvases, work.canvas_length)

    def empty(*size: int) -> Tensor:
        return torch.empty(size, dtype=torch.int64, device="meta")

    return Batch(
        tokens_N=empty(work.examples * work.tokens),
        lengths=(work.tokens,) * work.examples,
        starts_B=empty(canvases),
        canvas_BC=empty(*shape),
        noisy_BC=empty(*shape),
        self_conditioned_B=torch.empty(canvases, dtype=torch.bool, device="meta"),
        targets_N=empty(work.examples * work.tokens),
        canvases_per_example=work.canvases_per_example,
    )
