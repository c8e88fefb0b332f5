"""NVIDIA's modelopt checkpoints with experts in NVFP4: what `hf_quant_config.json` says, and experts stored one by one.

    model.decoder.layers.L.experts.E.{gate,up,down}_proj.{weight,weight_scale,weight_scale_2,input_scale}

They are put together into fused experts without being unpacked. `input_scale` would quantize activations and is not
used: activations keep their type here, as keys and values do, whatever `kv_cache_quant_algo` says.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gesso.errors import CheckpointError
from gesso.models.quantization import Quantization
from gesso.models.state_dict_adapter import to_hf_module
from gesso.models.tensors import open_file
from gesso.nn.modelopt import GROUP, NVFP4
from gesso.nn.quantized import QuantizedExperts

FILE = "hf_quant_config.json"
STORED = ("weight", "weight_scale", "weight_scale_2", "input_scale")
_HOMES = {"gate_proj": ("gate_up", 0), "up_proj": ("gate_up", 1), "down_proj": ("down", 0)}
"""Where a matrix goes: into which fused one, as which of its parts."""


def read_modelopt(raw: Mapping[str, Any]) -> Quantization:
    """What `hf_quant_config.json` says of the weights. Which layers are packed is seen from their tensors.

    Raises:
        CheckpointError: anything but experts in NVFP4.
    """
    found = raw.get("quantization")
    algorithm = found.get("quant_algo", "unknown") if isinstance(found, Mapping) else "unknown"
    if not isinstance(found, Mapping) or algorithm != "NVFP4":
        raise CheckpointError(f"quantized ({algorithm}, {FILE}), which gesso cannot read yet")
    for key, value in found.items():
        if key not in ("quant_algo", "group_size", "kv_cache_quant_algo", "exclude_modules"):
            raise CheckpointError(f"{FILE}: unknown key {key!r} may change the weights; it is not supported")
        if key == "group_size" and value != GROUP:
            raise CheckpointError(f"{FILE}: group_size {value!r} is not supported; NVFP4 has {GROUP}")
    return Quantization(None, NVFP4())


def expert_names(layers: Mapping[str, QuantizedExperts]) -> set[str]:
    """Hugging Face names of all tensors that hold experts."""
    return {
        f"{to_hf_module(layer)}.{expert}.{matrix}.{kind}"
        for layer, experts in layers.items()
        for expert in range(experts.num_experts)
        for matrix in _HOMES
        for kind in STORED
    }


def expert_tensors(
    files: Mapping[str, Path], layers: Mapping[str, QuantizedExperts], device: torch.device
) -> Iterator[tuple[str, Tensor]]:
    """The buffers of `layers`, filled from `files`, which holds every name of `expert_names`.

    Raises:
        CheckpointError: a tensor is not of the shape or type that it should be.
    """
    for layer, experts in layers.items():
        made = {name: torch.empty_like(buffer, device=device) for name, buffer in experts.named_buffers()}
        places = [f"{to_hf_module(layer)}.{expert}" for expert in range(experts.num_experts)]
        for path in sorted(
            {files[f"{place}.{matrix}.{kind}"] for place in places for matrix in _HOMES for kind in STORED}
        ):
            with open_file(path, str(device)) as file:
                for number, place in enumerate(places):
                    for matrix, (fused, half) in _HOMES.items():
                        for kind, part in zip(STORED, NVFP4.parts, strict=False):
                            name = f"{place}.{matrix}.{kind}"
                            if files[name] == path:
                                target = made[f"{fused}_{part}"][number]
                                _fill(
                                    target.chunk(2)[half] if fused == "gate_up" else target, file.get_tensor(name), name
                                )
        for name, buffer in made.items():
            yield f"{layer}.{name}", buffer


def _fill(target: Tensor, stored: Tensor, name: str) -> None:
    if stored.dtype != target.dtype:
        raise CheckpointError(f"{name} is {stored.dtype}, where NVFP4 has {target.dtype}")
    one = stored.numel() == 1 and target.dim() == 1  # the matrix's one number, held for every row
    if not one and stored.shape != target.shape:
        raise CheckpointError(f"{name} has shape {list(stored.shape)}, the config says {list(target.shape)}")
    target.copy_(stored.reshape(-1) if one else stored)
