"""Puts low-rank deltas on a model, and merges them into it; `gesso.models.adapter_files` reads and writes them.

gesso has one stack for encoder and decoder, and its own adapters one delta. Merging adds it to the shared weight once.
Adapters that others made may have a delta for each (`LoraConfig.separate`), which stay beside the weights.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path

import torch
from torch import Tensor, nn

from gesso.config import LoraConfig, ModelConfig
from gesso.errors import CheckpointError, OptionError
from gesso.models.block import Block
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.nn.experts import Experts
from gesso.nn.lora import LoraExperts, LoraLinear
from gesso.nn.quant.layers import QuantizedExperts, QuantizedLinear
from gesso.nn.separate_lora import SeparateLoraExperts, SeparateLoraLinear


def targets(model: DiffusionGemma, config: LoraConfig) -> list[str]:
    """Returns the names of the layers that `config` puts a delta on.

    Raises:
        OptionError: a pattern matches nothing.
    """
    kinds = (nn.Linear, Experts, QuantizedLinear, QuantizedExperts)
    names = [name for name, module in model.named_modules() if isinstance(module, kinds)]
    chosen: dict[str, None] = {}
    for pattern in config.targets:
        found = [name for name in names if fnmatchcase(name, pattern)]
        if not found:
            raise OptionError(
                f"the target {pattern!r} matches no layer; layers are called such as {names[0]}", option="target"
            )
        chosen |= dict.fromkeys(found)
    return [name for name in names if name in chosen]


def attach(model: DiffusionGemma, config: LoraConfig) -> None:
    """Freezes the model and puts a fresh delta, which changes nothing yet, on every target. Deltas are trainable.

    Raises:
        OptionError: the model has an adapter already, or a pattern matches nothing.
    """
    if any(adapted_layers(model)):
        raise OptionError("the model has an adapter already: merge it first")
    model.requires_grad_(False)
    for name in targets(model, config):
        wrap(model, name, config)


def adapted_layers(model: nn.Module) -> Iterator[tuple[str, LoraLinear | LoraExperts]]:
    """Yields the names and modules of the layers that have a delta."""
    for name, module in model.named_modules():
        if isinstance(module, LoraLinear | LoraExperts):
            yield name, module


def separate(model: nn.Module) -> bool:
    """Says whether encoder and decoder have a delta each, in any layer."""
    return any(isinstance(layer, SeparateLoraLinear | SeparateLoraExperts) for _, layer in adapted_layers(model))


def adapter_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """Returns the deltas' matrices by their names in the model."""
    return {
        f"{name}.{label}": parameter
        for name, module in adapted_layers(model)
        for label, parameter in module.named_parameters(recurse=False)
    }


def check_scales(trained: str, model: ModelConfig, folder: Path) -> None:
    """Refuses an adapter that was trained on weights with other scales: what its layers read is something else here.

    Args:
        trained: `ModelConfig.calibration` of the weights that the adapter in `folder` was trained on.

    Raises:
        CheckpointError: it was.
    """
    if trained == model.calibration:
        return
    if not trained:
        told = "weights that were not calibrated: quantize the model once more without --calibrate for it"
    else:
        told = "weights that were calibrated otherwise: load the checkpoint that it was trained on"
    raise CheckpointError(f"the adapter {folder} does not fit this model; it was trained on {told}")


@contextmanager
def without_adapter(model: DiffusionGemma) -> Iterator[None]:
    """Computes with the base weights alone while it lasts."""
    layers = list(adapted_layers(model))
    for name, layer in layers:
        put_layer(model, name, layer.base)
    try:
        yield
    finally:
        for name, layer in layers:
            put_layer(model, name, layer)


@torch.no_grad()
def merge(model: DiffusionGemma) -> None:
    """Adds every delta to its weight, in fp32, and removes the adapter.

    Raises:
        OptionError: a weight is quantized, which a delta cannot be added to, or encoder and decoder have a delta each.
    """
    layers = list(adapted_layers(model))
    if separate(model):
        raise OptionError(
            "this adapter has one delta for the encoder and another for the decoder, which share their weights: it "
            "cannot be merged",
            option="adapter",
            hint="load or serve it as it is",
        )
    for name, layer in layers:
        if isinstance(layer.base, QuantizedLinear | QuantizedExperts):
            raise OptionError(
                f"{name} is quantized: load the base model unquantized to merge an adapter into it",
                hint="--adapter takes it as it is",
            )
    for name, layer in layers:
        if isinstance(layer, LoraLinear):
            assert isinstance(layer.base, nn.Linear)
            _add(layer.base.weight, layer.delta())
        else:
            assert isinstance(layer.base, Experts)
            for weight, delta in zip((layer.base.gate_up_proj, layer.base.down_proj), layer.deltas(), strict=True):
                _add(weight, delta)
        put_layer(model, name, layer.base)


def merge_if_possible(model: DiffusionGemma) -> None:
    """Merges the adapter, or leaves it beside the weights: packed ones, and those that encoder and decoder share with a
    delta each, hold none."""
    packed = any(isinstance(layer.base, QuantizedLinear | QuantizedExperts) for _, layer in adapted_layers(model))
    if not packed and not separate(model):
        merge(model)


def _add(weight: Tensor, delta: Tensor) -> None:
    weight.copy_(weight.float() + delta)


def put_layer(model: nn.Module, name: str, module: nn.Module) -> None:
    """Puts a module in the place `name` of a model."""
    parent, _, label = name.rpartition(".")
    setattr(model.get_submodule(parent), label, module)


def wrap(model: nn.Module, name: str, config: LoraConfig) -> None:
    """Puts a fresh delta on the layer `name`."""
    layer, shape = model.get_submodule(name), (config.rank, config.scale, config.dropout)
    fused = isinstance(layer, Experts | QuantizedExperts)
    wrapped: LoraLinear | LoraExperts
    if config.separate and (match := re.match(r"layers\.\d+", name)):
        block = model.get_submodule(match[0])
        assert isinstance(block, Block)
        two = SeparateLoraExperts if fused else SeparateLoraLinear
        wrapped = two(layer, *shape, block.side)  # type: ignore[arg-type]
    else:
        wrapped = (LoraExperts if fused else LoraLinear)(layer, *shape)  # type: ignore[arg-type]
    put_layer(model, name, wrapped.train(layer.training))
