"""Makes the optimiser over what is trained, and names its state's tensors for a checkpoint."""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from gesso.errors import OptionError
from gesso.extras import pip_install
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.vision_tower import VisionModel
from gesso.train.config import TrainConfig
from gesso.train.distributed import full_tensor, shard_like
from gesso.train.eight_bit import EightBit, full_state, plain_tensors, shard_state
from gesso.train.muon import Muon, is_hidden_matrix

ADAMW_STATE = {"step", "exp_avg", "exp_avg_sq"}
MUON_STATE = {"momentum"}


def trainable(model: nn.Module, vision: VisionModel | None = None) -> Iterator[tuple[str, nn.Parameter]]:
    """Yields the names and tensors of what is trained, in the model's order; those of a vision tower come last, as
    `vision.NAME`."""
    yield from ((name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad)
    if vision is not None:
        named = vision.named_parameters(prefix="vision")
        yield from ((name, parameter) for name, parameter in named if parameter.requires_grad)


def make_optimizer(
    model: DiffusionGemma, config: TrainConfig, vision: VisionModel | None = None, rank: int = 0, size: int = 1
) -> torch.optim.Optimizer:
    """Makes AdamW or Muon, with a group for each parameter in the model's order; `set_rate` sets the rate before every
    step.

    Args:
        rank, size: this process among those that share Muon's work.

    Raises:
        OptionError: 8-bit moments are asked for and torchao is not installed.
    """
    trained = list(trainable(model, vision))
    groups = [{"params": [p], "weight_decay": config.weight_decay if p.dim() > 1 else 0.0} for _, p in trained]
    betas = (config.beta1, config.beta2)
    if config.optimizer == "adamw":
        return torch.optim.AdamW(groups, lr=0.0, betas=betas, foreach=False, fused=True)
    if config.optimizer == "muon":
        for group, (name, parameter) in zip(groups, trained, strict=True):
            group["momentum"] = config.momentum if is_hidden_matrix(name, parameter) else None
        dtype = torch.bfloat16 if config.is_half(model.device.type) else torch.float32
        return Muon(groups, betas, dtype, rank, size)
    try:
        from torchao.optim import AdamW8bit  # type: ignore[import-untyped,import-not-found,unused-ignore]
    except ImportError:
        raise OptionError(f"optimizer adamw8bit needs torchao: {pip_install('train')}", option="optimizer") from None
    optimizer: torch.optim.Optimizer = AdamW8bit(groups, lr=0.0, betas=betas)
    return optimizer


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Sets the learning rate of the next step."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def state_tensors(
    model: DiffusionGemma, optimizer: torch.optim.Optimizer, vision: VisionModel | None
) -> Iterator[tuple[str, Tensor]]:
    """Yields every state tensor, gathered, as `STATE.PARAMETER`; the parts of an 8-bit moment as
    `STATE:PART.PARAMETER`.

    All processes of a group iterate together.
    """
    for name, parameter in trainable(model, vision):
        for key, value in optimizer.state[parameter].items():
            for part, tensor in plain_tensors(_full(optimizer, key, value)).items():
                yield f"{key}{part}.{name}", tensor


def load_state_tensors(
    model: DiffusionGemma,
    optimizer: torch.optim.Optimizer,
    tensors: Mapping[str, Tensor],
    vision: VisionModel | None,
) -> None:
    """Loads what `state_tensors` gave, be it into more processes or fewer.

    Raises:
        KeyError: a tensor that belongs to no parameter of the model, or has another shape; its name.
    """
    parameters = dict(trainable(model, vision))
    found: dict[str, dict[str, dict[str, Tensor]]] = {name: {} for name in parameters}
    for name, tensor in tensors.items():
        key, _, label = name.partition(".")
        key, _, part = key.partition(":")
        if label not in found:
            raise KeyError(name)
        found[label].setdefault(key, {})[part] = tensor
    entries: dict[int, dict[str, Any]] = {}
    for index, (label, parameter) in enumerate(parameters.items()):
        if not found[label] and _joins_late(label):
            continue
        if set(found[label]) != (ADAMW_STATE if optimizer.param_groups[index].get("momentum") is None else MUON_STATE):
            raise KeyError(label)
        entries[index] = {key: _shard(optimizer, parameter, label, key, parts) for key, parts in found[label].items()}
    if isinstance(optimizer, EightBit):
        # load_state_dict would cast the 8-bit parts to the parameter's type.
        for index, parameter in enumerate(parameters.values()):
            if index in entries:
                optimizer.state[parameter] = entries[index]
        return
    optimizer.load_state_dict({**optimizer.state_dict(), "state": entries})


def _joins_late(name: str) -> bool:
    """Says whether a parameter may have no state yet: what only canvases go through, while the causal pass learns
    alone, or only images, of which there was none so far."""
    return name.startswith(("self_conditioning.", "vision."))


def _full(optimizer: torch.optim.Optimizer, key: str, value: Tensor) -> Tensor:
    return full_state(optimizer, key, value) if isinstance(optimizer, EightBit) else full_tensor(value)


def _shard(
    optimizer: torch.optim.Optimizer, parameter: Tensor, label: str, key: str, parts: Mapping[str, Tensor]
) -> Tensor:
    if isinstance(optimizer, EightBit):
        return shard_state(optimizer, parameter, label, key, parts)
    if set(parts) != {""} or parts[""].shape not in (torch.Size(), parameter.shape):  # a step count has no shape
        raise KeyError(f"{key}.{label}")
    return shard_like(parts[""], parameter) if parts[""].dim() else parts[""]
