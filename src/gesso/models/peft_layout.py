"""Lays deltas out as PEFT does: the names of a layer's matrices and their shapes, both ways."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import Tensor

from gesso.errors import CheckpointError
from gesso.models.adapters import adapted_layers
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.state_dict_adapter import ENCODER_STACK, to_hf_module
from gesso.nn.lora import LoraExperts, LoraLinear
from gesso.nn.separate_lora import SeparateLoraExperts, SeparateLoraLinear

PREFIX = "base_model.model."
"""Stands before every name in a file."""


def fill(
    model: DiffusionGemma, tensors: dict[str, Tensor], path: Path, layout: Callable[[Tensor, Tensor], Tensor]
) -> None:
    """Moves every tensor of a file into the delta it belongs to.

    Raises:
        CheckpointError: a delta is missing, misshapen, or fits no layer.
    """
    for name, layer in adapted_layers(model):
        stacks = stacks_of(to_hf_module(name))
        if isinstance(layer, SeparateLoraLinear | SeparateLoraExperts):
            for stack in stacks:
                _fill_side(layer, stack, tensors, path, layout)
            continue
        own, *copies = [dict(to_peft(stack, layer, _empty)) for stack in stacks]
        read = {key: _take(tensors, key, value, path) for key, value in own.items()}
        for copy in copies:
            for key, mine in zip(copy, read.values(), strict=True):
                if not torch.equal(_take(tensors, key, mine, path), mine):
                    raise CheckpointError(
                        f"{key}: encoder and decoder have unlike deltas, and the run trains one shared delta"
                    )
        _from_peft(layer, list(read.values()), layout)
    if tensors:
        raise CheckpointError(f"{path} has deltas that fit no layer of this model: {min(tensors)}")


def _fill_side(
    layer: LoraLinear | LoraExperts,
    stack: str,
    tensors: dict[str, Tensor],
    path: Path,
    layout: Callable[[Tensor, Tensor], Tensor],
) -> None:
    """Moves the delta of encoder or decoder to where it belongs; one that the file does not have is zero."""
    own = dict(to_peft(stack, layer, _empty))
    causal = stack.startswith(ENCODER_STACK)
    if any(PREFIX + key in tensors for key in own):
        read = [_take(tensors, key, value, path) for key, value in own.items()]
    else:
        drawn = dict(to_peft(stack, layer))
        read = [torch.zeros_like(value) if key.endswith("lora_B.weight") else value for key, value in drawn.items()]
    _from_peft(layer, read, layout, causal=causal)


def stacks_of(name: str) -> list[str]:
    """Returns the names under which the reference holds a layer: decoder, and encoder where it has the layer too."""
    match = re.fullmatch(r"model\.decoder\.(layers\..+)", name)
    return [name, f"{ENCODER_STACK}{match[1]}"] if match else [name]


def to_peft(
    stack: str, layer: LoraLinear | LoraExperts, gather: Callable[[Tensor], Tensor] = torch.Tensor.detach
) -> Iterator[tuple[str, Tensor]]:
    """Yields PEFT's names and layouts of a layer's matrices, A before B; fused experts have gate_up innermost."""
    causal = stack.startswith(ENCODER_STACK)
    if isinstance(layer, LoraLinear):
        for label, matrix in zip("AB", layer.matrices(causal), strict=True):
            yield f"{stack}.lora_{label}.weight", gather(matrix)
        return
    gate_up_A, gate_up_B, down_A, down_B = layer.matrices(causal)
    for place, a_ERI, b_EOR in ((f"{stack}.base_layer", gate_up_A, gate_up_B), (stack, down_A, down_B)):
        # A lies expert by expert [E * R, in]; B lies rank by rank with the expert running fastest [out, R * E].
        yield f"{place}.lora_A.weight", gather(a_ERI).flatten(0, 1)
        yield f"{place}.lora_B.weight", gather(b_EOR).permute(1, 2, 0).flatten(1)


def _from_peft(
    layer: LoraLinear | LoraExperts,
    matrices: list[Tensor],
    layout: Callable[[Tensor, Tensor], Tensor],
    *,
    causal: bool = False,
) -> None:
    if isinstance(layer, LoraLinear):
        for parameter, matrix in zip(layer.matrices(causal), matrices, strict=True):
            parameter.copy_(layout(matrix, parameter))
        return
    gate_up_A, gate_up_B, down_A, down_B = layer.matrices(causal)
    pairs = ((gate_up_A, gate_up_B), (down_A, down_B))
    for (a_ERI, b_EOR), a, b in zip(pairs, matrices[0::2], matrices[1::2], strict=True):
        experts, out, rank = b_EOR.shape
        a_ERI.copy_(layout(a.view(experts, rank, -1), a_ERI))
        b_EOR.copy_(layout(b.view(out, rank, experts).permute(2, 0, 1).contiguous(), b_EOR))


def _empty(tensor: Tensor) -> Tensor:
    """Returns an unsharded tensor of that shape, not filled in."""
    return torch.empty(tensor.shape)


def _take(tensors: dict[str, Tensor], key: str, like: Tensor, path: Path) -> Tensor:
    """Takes `key` out of `tensors`; it is of the shape of `like`."""
    tensor = tensors.pop(PREFIX + key, None)
    if tensor is None:
        raise CheckpointError(f"{path} lacks {PREFIX}{key}")
    if tensor.shape != like.shape:
        raise CheckpointError(f"{PREFIX}{key} has shape {list(tensor.shape)}, this model wants {list(like.shape)}")
    return tensor.to(like.device)
