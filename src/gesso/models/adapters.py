"""Puts low-rank deltas on a model, merges them into it, and reads and writes them in PEFT's format.

The reference holds encoder and decoder as two modules on the same weights, and PEFT gives each a delta of its own.
gesso has one stack and one delta: it writes the delta under both names, so that PEFT's model computes what ours does,
and reads only files where the two agree. Merging adds the delta to the shared weight once. (PEFT's own
`merge_and_unload` would add it twice: once for each name.)
"""

import json
import os
import re
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from gesso.config import LoraConfig
from gesso.errors import CheckpointError, OptionError
from gesso.json_files import read_json
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.saving import write_safetensors
from gesso.models.state_dict_adapter import ENCODER_STACK, to_hf_module
from gesso.models.tensors import check_finite
from gesso.nn.experts import Experts
from gesso.nn.lora import LoraExperts, LoraLinear
from gesso.nn.quant.layers import QuantizedExperts, QuantizedLinear

CONFIG = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"
_PREFIX = "base_model.model."
_MATRICES = ("gate_up", "down")
_NEUTRAL: dict[str, tuple[object, ...]] = {
    "bias": ("none", None),
    "use_dora": (False, None),
    "fan_in_fan_out": (False, None),
    "lora_bias": (False, None),
    "modules_to_save": (None, []),
    "trainable_token_indices": (None, [], {}),
    "rank_pattern": ({}, None),
    "alpha_pattern": ({}, None),
    "layer_replication": (None,),
    "alora_invocation_tokens": (None,),
    "use_qalora": (False, None),
    "exclude_modules": (None, []),
}
"""Settings of PEFT that change what an adapter computes, with the values that do not."""


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
    if any(adapted(model)):
        raise OptionError("the model has an adapter already: merge it first")
    model.requires_grad_(False)
    for name in targets(model, config):
        _wrap(model, name, config)


def adapted(model: nn.Module) -> Iterator[tuple[str, LoraLinear | LoraExperts]]:
    """Yields the names and modules of the layers that have a delta."""
    for name, module in model.named_modules():
        if isinstance(module, LoraLinear | LoraExperts):
            yield name, module


def adapter_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """Returns the deltas' matrices by their names in the model."""
    return {
        f"{name}.{label}": parameter
        for name, module in adapted(model)
        for label, parameter in module.named_parameters(recurse=False)
    }


@torch.no_grad()
def merge(model: DiffusionGemma) -> None:
    """Adds every delta to its weight, in fp32, and removes the adapter.

    Raises:
        OptionError: a weight is quantized, which a delta cannot be added to.
    """
    layers = list(adapted(model))
    for name, layer in layers:
        if isinstance(layer.base, QuantizedLinear | QuantizedExperts):
            raise OptionError(f"{name} is quantized: load the base model unquantized to merge an adapter into it")
    for name, layer in layers:
        if isinstance(layer, LoraLinear):
            assert isinstance(layer.base, nn.Linear)
            _add(layer.base.weight, layer.delta())
        else:
            assert isinstance(layer.base, Experts)
            for weight, delta in zip((layer.base.gate_up_proj, layer.base.down_proj), layer.deltas(), strict=True):
                _add(weight, delta)
        _put(model, name, layer.base)


def _add(weight: Tensor, delta: Tensor) -> None:
    weight.copy_(weight.float() + delta)


def _put(model: nn.Module, name: str, module: nn.Module) -> None:
    parent, _, label = name.rpartition(".")
    setattr(model.get_submodule(parent), label, module)


def _wrap(model: nn.Module, name: str, config: LoraConfig) -> None:
    layer = model.get_submodule(name)
    kind = LoraExperts if isinstance(layer, Experts | QuantizedExperts) else LoraLinear
    wrapped = kind(layer, config.rank, config.scale, config.dropout)  # type: ignore[arg-type]
    _put(model, name, wrapped.train(layer.training))


def save_adapter(
    model: DiffusionGemma,
    config: LoraConfig,
    folder: Path,
    base: str,
    gather: Callable[[Tensor], Tensor] = torch.Tensor.detach,
    writes: bool = True,
) -> None:
    """Writes the adapter as PEFT does; `base` is the name or folder of the base model, for the reader's information.

    Args:
        gather: as in `save_folder`: makes a full tensor of a sharded one; one process `writes`.
    """
    tensors: dict[str, Tensor] = {}
    modules: list[str] = []
    parameters: list[str] = []
    for name, layer in adapted(model):
        for stack in _stacks(to_hf_module(name)):
            (modules if isinstance(layer, LoraLinear) else parameters).extend(
                [stack] if isinstance(layer, LoraLinear) else [f"{stack}.{matrix}_proj" for matrix in _MATRICES]
            )
            tensors |= {_PREFIX + key: value.cpu().clone() for key, value in _to_peft(stack, layer, gather)}
    if not writes:
        return
    folder.mkdir(parents=True, exist_ok=True)
    settings = {
        "peft_type": "LORA",
        "task_type": None,
        "base_model_name_or_path": base,
        "inference_mode": True,
        "r": config.rank,
        "lora_alpha": config.alpha,
        # PEFT knows no dropout on fused experts, and an adapter that is done needs none.
        "lora_dropout": 0.0 if parameters else config.dropout,
        "use_rslora": config.rank_stabilised,
        "bias": "none",
        "fan_in_fan_out": False,
        "init_lora_weights": True,
        "target_modules": modules,
        "target_parameters": parameters or None,
    }
    partial = folder / f"{WEIGHTS}.partial"
    write_safetensors(tensors, partial)
    os.replace(partial, folder / WEIGHTS)
    partial = folder / f"{CONFIG}.partial"
    partial.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
    os.replace(partial, folder / CONFIG)


def read_adapter_config(folder: Path) -> LoraConfig:
    """Reads the settings of an adapter in PEFT's format; its targets are told by the weights themselves.

    Raises:
        CheckpointError: it is no LoRA adapter, or one with a setting that gesso does not compute.
    """
    if not (folder / CONFIG).exists():
        raise CheckpointError(f"no {CONFIG} in {folder}: an adapter is a folder with {CONFIG} and {WEIGHTS}")
    settings = read_json(folder / CONFIG)
    if settings.get("peft_type") != "LORA":
        raise CheckpointError(f"{folder / CONFIG}: peft_type {settings.get('peft_type')!r} is not LORA")
    for name, neutral in _NEUTRAL.items():
        if name in settings and settings[name] not in neutral:
            raise CheckpointError(f"{folder / CONFIG}: {name} = {settings[name]!r} is not supported")
    for name in ("r", "lora_alpha"):
        if not isinstance(settings.get(name), int | float) or isinstance(settings[name], bool):
            raise CheckpointError(f"{folder / CONFIG}: {name} is missing or no number")
    return LoraConfig(
        rank=settings["r"],
        alpha=settings["lora_alpha"],
        dropout=settings.get("lora_dropout") or 0.0,
        rank_stabilised=bool(settings.get("use_rslora")),
    )


@torch.no_grad()
def load_adapter(model: DiffusionGemma, folder: Path) -> LoraConfig:
    """Puts the adapter in `folder` on the model, frozen, and returns its settings with the layers it names.

    Raises:
        CheckpointError: the file is damaged, does not fit this model, or holds unlike deltas for encoder and decoder.
    """
    config = read_adapter_config(folder)
    tensors = _read_tensors(folder)
    layers = {to_hf_module(name): name for name in targets(model, LoraConfig(targets=("*",)))}
    found = [name for stack, name in layers.items() if any(key.startswith(f"{_PREFIX}{stack}.") for key in tensors)]
    if not found:
        raise CheckpointError(f"{folder / WEIGHTS} has no delta for any layer of this model")
    for name in found:
        _wrap(model, name, config)
    model.requires_grad_(False)
    _fill(model, tensors, folder, lambda full, parameter: full)
    return LoraConfig(config.rank, config.alpha, config.dropout, tuple(found), config.rank_stabilised)


@torch.no_grad()
def load_adapter_weights(model: DiffusionGemma, folder: Path, layout: Callable[[Tensor, Tensor], Tensor]) -> None:
    """Loads the adapter in `folder` into the deltas that the model has already, which stay trainable.

    Args:
        layout: shards a full tensor as the parameter (second argument) is.

    Raises:
        CheckpointError: as `load_adapter`.
    """
    _fill(model, _read_tensors(folder), folder, layout)


def _read_tensors(folder: Path) -> dict[str, Tensor]:
    try:
        tensors: dict[str, Tensor] = load_file(folder / WEIGHTS)
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{folder / WEIGHTS} cannot be read: {error}") from None
    for name, tensor in tensors.items():
        check_finite(f"{folder / WEIGHTS}: {name}", tensor)
    return tensors


def _fill(
    model: DiffusionGemma, tensors: dict[str, Tensor], folder: Path, layout: Callable[[Tensor, Tensor], Tensor]
) -> None:
    """Moves every tensor of a file into the delta it belongs to."""
    for name, layer in adapted(model):
        own, *copies = [dict(_to_peft(stack, layer, _empty)) for stack in _stacks(to_hf_module(name))]
        read = {key: _take(tensors, key, value, folder) for key, value in own.items()}
        for copy in copies:
            for key, mine in zip(copy, read.values(), strict=True):
                if not torch.equal(_take(tensors, key, mine, folder), mine):
                    raise CheckpointError(
                        f"{key}: encoder and decoder have unlike deltas; gesso trains and runs one shared delta"
                    )
        _from_peft(layer, list(read.values()), layout)
    if tensors:
        raise CheckpointError(f"{folder / WEIGHTS} has deltas that fit no layer of this model: {min(tensors)}")


def _stacks(name: str) -> list[str]:
    """Returns the names under which the reference holds a layer: decoder, and encoder where it has the layer too."""
    match = re.fullmatch(r"model\.decoder\.(layers\..+)", name)
    return [name, f"{ENCODER_STACK}{match[1]}"] if match else [name]


def _to_peft(
    stack: str, layer: LoraLinear | LoraExperts, gather: Callable[[Tensor], Tensor] = torch.Tensor.detach
) -> Iterator[tuple[str, Tensor]]:
    """Yields PEFT's names and layouts of a layer's matrices, A before B; fused experts have gate_up innermost."""
    if isinstance(layer, LoraLinear):
        yield f"{stack}.lora_A.weight", gather(layer.lora_A)
        yield f"{stack}.lora_B.weight", gather(layer.lora_B)
        return
    for place, a_ERI, b_EOR in (
        (f"{stack}.base_layer", layer.gate_up_lora_A, layer.gate_up_lora_B),
        (stack, layer.down_lora_A, layer.down_lora_B),
    ):
        # A lies expert by expert [E * R, in]; B lies rank by rank with the expert running fastest [out, R * E].
        yield f"{place}.lora_A.weight", gather(a_ERI).flatten(0, 1)
        yield f"{place}.lora_B.weight", gather(b_EOR).permute(1, 2, 0).flatten(1)


def _from_peft(
    layer: LoraLinear | LoraExperts, matrices: list[Tensor], layout: Callable[[Tensor, Tensor], Tensor]
) -> None:
    if isinstance(layer, LoraLinear):
        for parameter, matrix in zip((layer.lora_A, layer.lora_B), matrices, strict=True):
            parameter.copy_(layout(matrix, parameter))
        return
    pairs = ((layer.gate_up_lora_A, layer.gate_up_lora_B), (layer.down_lora_A, layer.down_lora_B))
    for (a_ERI, b_EOR), a, b in zip(pairs, matrices[0::2], matrices[1::2], strict=True):
        experts, out, rank = b_EOR.shape
        a_ERI.copy_(layout(a.view(experts, rank, -1), a_ERI))
        b_EOR.copy_(layout(b.view(out, rank, experts).permute(2, 0, 1).contiguous(), b_EOR))


def _empty(tensor: Tensor) -> Tensor:
    """Returns an unsharded tensor of that shape, not filled in."""
    return torch.empty(tensor.shape)


def _take(tensors: dict[str, Tensor], key: str, like: Tensor, folder: Path) -> Tensor:
    """Takes `key` out of `tensors`, in fp32 and of the shape of `like`."""
    tensor = tensors.pop(_PREFIX + key, None)
    if tensor is None:
        raise CheckpointError(f"{folder / WEIGHTS} lacks {_PREFIX}{key}")
    if tensor.shape != like.shape:
        raise CheckpointError(f"{_PREFIX}{key} has shape {list(tensor.shape)}, this model wants {list(like.shape)}")
    return tensor.to(like.device, torch.float32)
