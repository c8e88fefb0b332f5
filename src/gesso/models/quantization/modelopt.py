"""Reads NVIDIA's modelopt checkpoints: experts in NVFP4, or linear layers and experts in FP8.

What they say of themselves stands in `hf_quant_config.json`, or in `quantization_config` of `config.json`. Matrices are
stored one by one, experts too:

    model.decoder.layers.L.experts.E.{gate,up,down}_proj.{weight,weight_scale,weight_scale_2,input_scale}    NVFP4
    the same, and model.decoder.layers.L.self_attn.q_proj.{weight,weight_scale,input_scale} and its like     FP8

They are put together into our layers without being unpacked. `input_scale`, `k_scale` and `v_scale` would quantize
activations, keys and values and are not used: these keep their type here, whatever `kv_cache_quant_algo` says.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gesso.errors import CheckpointError
from gesso.models.quantization.plan import Quantization
from gesso.models.state_dict_adapter import to_hf, to_hf_module
from gesso.models.tensors import check_copies, check_finite, open_file, read_whole
from gesso.nn.experts import Experts
from gesso.nn.quant.fp8 import FP8
from gesso.nn.quant.layers import QuantizedExperts, QuantizedLinear
from gesso.nn.quant.nvfp4 import GROUP, NVFP4

FILE = "hf_quant_config.json"
CONFIG = "config.json: quantization_config"
FORMATS = (NVFP4, FP8)
Packed = QuantizedLinear | QuantizedExperts

_CHOICES = {
    "NVFP4": Quantization(None, NVFP4()),
    "FP8": Quantization(FP8(), FP8()),
    "FP8_PER_CHANNEL_PER_TOKEN": Quantization(FP8(), FP8()),
}
"""`quant_algo`. The two of FP8 differ in how activations are quantized, and in the shape of `weight_scale`."""
_KEYS = {
    FILE: {"quant_algo", "group_size", "kv_cache_quant_algo", "exclude_modules"},
    CONFIG: {"quant_method", "quant_algo", "group_size", "config_groups", "kv_cache_scheme", "ignore", "producer"},
}
_STORED: dict[type, tuple[str, ...]] = {
    NVFP4: ("weight", "weight_scale", "weight_scale_2", "input_scale"),
    FP8: ("weight", "weight_scale"),
}
"""Tensors of a matrix: the format's parts, in order, and what else must be there."""
_HOMES = {"gate_proj": ("gate_up_", 0), "up_proj": ("gate_up_", 1), "down_proj": ("down_", None)}
"""Where an expert's matrix goes: into which fused one, as which half."""
_CACHE_SCALE = re.compile(r".+\.self_attn\.([kv])_proj\.\1_scale")


def read_modelopt(found: Any, where: str = FILE) -> Quantization:
    """Reads what a modelopt checkpoint says of its weights. Which layers are packed is seen from their tensors.

    Args:
        found: the settings.
        where: they stand, `FILE` or `CONFIG`.

    Raises:
        CheckpointError: anything but experts in NVFP4, or FP8.
    """
    algorithm = found.get("quant_algo", "unknown") if isinstance(found, Mapping) else "unknown"
    if not isinstance(found, Mapping) or not isinstance(algorithm, str) or algorithm not in _CHOICES:
        raise CheckpointError(f"quantized ({algorithm}, {where}), which gesso cannot read yet")
    group = GROUP if algorithm == "NVFP4" else None
    for key, value in found.items():
        if key not in _KEYS[where]:
            raise CheckpointError(f"{where}: unknown key {key!r} may change the weights; it is not supported")
        if key == "group_size" and value != group:
            raise CheckpointError(f"{where}: group_size {value!r} is not supported; {algorithm} has {group or 'none'}")
    return _CHOICES[algorithm]


def packed_layers(model: nn.Module, files: Mapping[str, Path]) -> set[str]:
    """Returns the names of the layers that are packed in `files`: linear ones whose weight is FP8, experts that are not
    fused.

    Raises:
        CheckpointError: there are none.
    """
    linear = {to_hf(f"{name}.weight"): name for name, module in model.named_modules() if isinstance(module, nn.Linear)}
    found: set[str] = set()
    for path in sorted({files[name] for name in linear if name in files}):
        with open_file(path) as file:
            stored = linear.keys() & file.keys()
            found |= {linear[name] for name in stored if file.get_slice(name).get_dtype() == "F8_E4M3"}
    experts = (name for name, module in model.named_modules() if isinstance(module, Experts))
    found |= {name for name in experts if to_hf(f"{name}.down_proj") not in files}
    if not found:
        raise CheckpointError(f"{FILE} or config.json says that weights are packed, and none is")
    return found


def stored_names(layers: Mapping[str, Packed], files: Mapping[str, Path]) -> set[str]:
    """Returns the Hugging Face names of the tensors that must hold `layers`, and of those in `files` that stand beside
    them and are not used."""
    matrices = [(matrix, module) for layer, module in layers.items() for matrix in _places(layer, module)]
    needed = {f"{matrix}.{kind}" for matrix, module in matrices for kind in _STORED[type(module.form)]}
    unused = {f"{matrix}.input_scale" for matrix, _ in matrices} & files.keys()
    return needed | unused | ({name for name in files if _CACHE_SCALE.fullmatch(name)} if layers else set())


def layer_tensors(
    files: Mapping[str, Path], layers: Mapping[str, Packed], place_of: Callable[[str], torch.device]
) -> Iterator[tuple[str, Tensor]]:
    """Yields the buffers of `layers` but biases, filled from `files`, which holds every name of `stored_names`.

    Args:
        place_of: the device of a buffer, by our name.

    Raises:
        CheckpointError: a tensor is not of the shape or type that it should be, a scale is no number, a copy differs.
    """
    used: set[str] = set()
    for layer, module in layers.items():
        device = place_of(f"{layer}.")
        kinds, algorithm = list(zip(_STORED[type(module.form)], module.form.parts, strict=False)), type(module.form)
        buffers = ((name, buffer) for name, buffer in module.named_buffers() if name != "bias")
        made = {name: torch.empty_like(buffer, device=device) for name, buffer in buffers}
        targets = {
            f"{matrix}.{kind}": place.of(made[place.prefix + part])
            for matrix, place in _places(layer, module).items()
            for kind, part in kinds
        }
        used |= targets.keys()
        for path in sorted({files[name] for name in targets}):
            with open_file(path, str(device)) as file:
                for name, target in targets.items():
                    if files[name] == path:
                        _fill(target, read_whole(file, name, path), name, algorithm.__name__)
        for name, buffer in made.items():
            yield f"{layer}.{name}", buffer
    check_copies(files, used, torch.float32)


@dataclass(frozen=True, slots=True)
class _Place:
    """Says where a stored matrix goes: into which of a layer's buffers, and which part of them is its own."""

    prefix: str = ""
    expert: int | None = None
    half: int | None = None

    def of(self, buffer: Tensor) -> Tensor:
        own = buffer if self.expert is None else buffer[self.expert]
        return own if self.half is None else own.chunk(2)[self.half]


def _places(layer: str, module: Packed) -> dict[str, _Place]:
    """Returns the places by the Hugging Face name of the matrix."""
    stem = to_hf_module(layer)
    if isinstance(module, QuantizedLinear):
        return {stem: _Place()}
    return {
        f"{stem}.{expert}.{matrix}": _Place(prefix, expert, half)
        for expert in range(module.num_experts)
        for matrix, (prefix, half) in _HOMES.items()
    }


def _fill(target: Tensor, stored: Tensor, name: str, algorithm: str) -> None:
    if stored.dtype != target.dtype:
        raise CheckpointError(f"{name} is {stored.dtype}, where {algorithm} has {target.dtype}")
    by_rows = target.dim() == 1  # the matrix's one number, held for every row, or a column of them
    if by_rows and (stored.numel() == 1 or stored.shape == (len(target), 1)):
        stored = stored.reshape(-1).expand_as(target)
    if stored.shape != target.shape:
        raise CheckpointError(f"{name} has shape {list(stored.shape)}, the config says {list(target.shape)}")
    check_finite(name, stored)
    target.copy_(stored)
