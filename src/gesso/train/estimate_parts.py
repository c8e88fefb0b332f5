"""Counts what autograd and an optimizer keep, and what one process of a run of several holds, whose experts lie apart
(`gesso.train.expert_parallel`) or not.

Of experts that lie apart a process has its own ones. All other parameters lie in parts as well (FSDP), and are whole
for the time of their layer; those outside the layers for the time of a pass. Packed weights other than such experts'
are whole in every process.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from gesso.config import ModelConfig
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.expert_parts import is_of_experts
from gesso.nn.grouped_products import padded_rows
from gesso.train.attention import CPU_NUMBERS, NUMBERS
from gesso.train.config import Optimizer
from gesso.train.encoder_rows import group_rows
from gesso.train.muon import is_hidden_matrix

if TYPE_CHECKING:
    from gesso.train.estimate import Workload

MOMENT_BYTES = {"adamw": 8.0, "adamw8bit": 2 + 2 * 4 / 256, "muon": 8.0}
"""Bytes of AdamW's two moments for each number trained; 8-bit ones come with an fp32 scale for every 256."""
MUON_BYTES = 4.0
"""Bytes of the one moment that Muon has of its matrices."""
PROBABILITY_BYTES = 13
"""Bytes for each of the probabilities that are there at a time: scores in half precision, with a mask in fp32, their
softmax and its gradient."""
ROUTED_COPIES = 4
"""Rows sent, rows arrived, their experts' answers, and answers come back."""


@contextmanager
def saved_bytes(module: nn.Module, without: tuple[int, ...] = ()) -> Iterator[Callable[[], int]]:
    """Yields a function that counts the bytes that autograd keeps of passes in this context, those of the module's own
    tensors aside.

    Args:
        without: last dimensions of tensors that are not counted.
    """
    own = {t.untyped_storage()._cdata for t in (*module.parameters(), *module.buffers())}
    storages: dict[int, torch.UntypedStorage] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in own and not (without and tensor.shape[-len(without) :] == without):
            storages[storage._cdata] = storage  # held, so that no later one takes its place
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        yield lambda: sum(storage.nbytes() for storage in storages.values())


def moment_bytes(parameters: Iterable[tuple[str, nn.Parameter]], optimizer: Optimizer, processes: int = 1) -> int:
    """Returns the bytes of the optimizer's moments of those parameters that are trained, in a process.

    Args:
        processes: over which the parameters lie.
    """
    total = 0.0
    for name, parameter in parameters:
        alone = optimizer == "muon" and is_hidden_matrix(name, parameter)
        each = MUON_BYTES if alone else MOMENT_BYTES[optimizer]
        total += part_of(parameter, processes) * parameter.requires_grad * each
    return int(total)


def part_of(tensor: Tensor, processes: int) -> int:
    """Returns how many numbers of a tensor the process holds that has most of them: parts are cut along the first
    dimension."""
    return -(-len(tensor) // processes) * (tensor.numel() // len(tensor)) if tensor.numel() else 0


def held_buffers(model: DiffusionGemma, processes: int) -> Iterator[tuple[Tensor, int]]:
    """Yields the model's buffers, packed weights among them, and how many of their numbers a process holds.

    Args:
        processes: over which the experts lie.
    """
    for name, buffer in model.named_buffers():
        yield buffer, part_of(buffer, processes) if is_of_experts(name) else buffer.numel()


def half_copies(model: DiffusionGemma, processes: int, kept: int) -> int:
    """Returns the bytes of the copies in bfloat16 that autocast's products read: of experts that lie apart those held,
    of all else the whole.

    Autocast keeps one copy of a parameter for the time of a step. A layer's experts are views of one parameter to it,
    or copied for one grouped product: those are copied in each pass, and kept for the backward one.

    Args:
        processes: over which the experts lie.
        kept: copies of the experts that are there at once; 0 where a layer's are gone when it is done.
    """
    others = sum(p.numel() for name, p in model.named_parameters() if not is_of_experts(name))
    layers = [
        sum(part_of(p, processes) for name, p in block.named_parameters(prefix) if is_of_experts(name))
        for prefix, block in ((f"layers.{i}", block) for i, _, block in model.blocks())
    ]
    return 2 * (others + (kept * sum(layers) if kept else max(layers)))


def grouped_bytes(config: ModelConfig, tokens: int) -> int:
    """Returns the bytes that kernels keep of a layer's experts beyond what single operations keep, which a pass without
    numbers runs: of a mixture all rows, those that no token has, too, but of a gate its halves alone."""
    choices = tokens * config.top_k_experts
    rows = padded_rows(choices, config.num_experts)
    return 2 * ((rows - choices) * config.hidden_size - rows * config.moe_intermediate_size)


def gathered_bytes(model: DiffusionGemma, processes: int, weight_bytes: int | None, *, experts: bool = False) -> int:
    """Returns the bytes of parameters that are whole for a while, beside a process's parts: those outside the layers,
    and of layers the one that computes and the one that is fetched ahead. Gradients are whole likewise, of one layer.

    Args:
        weight_bytes: of a number of the parameters; None takes each parameter's own.
        experts: whether experts are gathered as well; they are where they do not lie apart.
    """
    if processes == 1:
        return 0

    def sizes(prefix: str | None) -> tuple[int, int]:
        """Bytes of parameters and gradients, of a layer or of what is in none."""
        chosen = [
            parameter
            for name, parameter in model.named_parameters()
            if (experts or not is_of_experts(name))
            and (name.startswith(prefix) if prefix else not name.startswith("layers."))
        ]
        return (
            sum(p.numel() * (weight_bytes or p.itemsize) for p in chosen),
            sum(4 * p.numel() for p in chosen if p.requires_grad),
        )

    outside, layers = sizes(None), [sizes(f"layers.{i}.") for i, _, _ in model.blocks()]
    return sum(outside) + 2 * max(size for size, _ in layers) + max(size for _, size in layers)


def probability_bytes(config: ModelConfig, work: "Workload") -> int:
    """Returns the bytes of the attention probabilities that are there at a time, where no kernel does without: on a
    CPU, in sliding layers of rows longer than their window, and where processes share a sequence."""
    (group,) = group_rows([work.tokens])
    bounded = group.longest <= config.sliding_window and work.images is None
    flat = work.images is None and not work.canvases
    if work.device_type == "cuda" and work.context is None and (bounded or flat):
        return 0
    token = config.num_attention_heads * group.longest
    most = CPU_NUMBERS if work.device_type == "cpu" else NUMBERS
    return PROBABILITY_BYTES * max(token, min(most, work.examples * work.own_tokens * token))


def routed_bytes(model: DiffusionGemma, tokens: int, processes: int) -> int:
    """Returns the bytes of the rows that a layer sends to experts and gets back, where every process gets its share."""
    config = model.config
    routed = ROUTED_COPIES * tokens * config.top_k_experts * config.hidden_size * model.dtype.itemsize
    return routed if processes > 1 else 0
