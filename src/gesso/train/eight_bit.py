"""Gathers and shards moments in 8 bits, as torchao holds them.

A moment's numbers are codes, with a scale for every block of 256 in a row. A tensor of fewer than 4,096 numbers, or of
blocks that are not whole, keeps its moments as they are; in a group that goes for each process's shard.
"""

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

from gesso.train.distributed import from_local_shard, full_tensor, local_shard, on_all_ranks, shard_like


@runtime_checkable
class EightBit(Protocol):
    """Recognises an optimiser of torchao's that holds its moments in 8 bits, small ones as they are."""

    def _new_buffer(self, p: Tensor, signed: bool) -> Tensor: ...


@runtime_checkable
class _Moment(Protocol):
    """Recognises a moment in 8 bits."""

    codes: Tensor
    scale: Tensor

    def dequantize(self) -> Tensor: ...


def plain_tensors(value: Tensor) -> dict[str, Tensor]:
    """Returns the plain tensors that a state value is made of, by suffix."""
    if isinstance(value, _Moment):
        return {":codes": value.codes, ":scale": value.scale}
    return {"": value}


def full_state(optimizer: EightBit, key: str, value: Tensor) -> Tensor:
    """Gathers a state from all shards: in 8 bits where every process holds its shard so."""
    if not isinstance(value, DTensor):
        return value
    local = value.to_local()
    if not on_all_ranks(isinstance(local, _Moment), local.device):
        return full_tensor(from_local_shard(_plain(local), value))
    # Every part is whole blocks, so all of them together are the blocks of the whole.
    assert isinstance(local, _Moment)
    codes, scale = (full_tensor(from_local_shard(part, value)) for part in (local.codes, _scale_per_number(local)))
    moment = optimizer._new_buffer(torch.empty(value.shape, device=codes.device), _is_signed(key))
    assert isinstance(moment, _Moment)
    moment.codes.copy_(codes)
    moment.scale.copy_(_scale_per_block(scale, moment))
    return moment


def shard_state(optimizer: EightBit, parameter: Tensor, label: str, key: str, parts: Mapping[str, Tensor]) -> Tensor:
    """Returns this process's shard of a state, from the full one's parts.

    Raises:
        KeyError: it has another shape than the parameter.
    """
    if set(parts) == {"codes", "scale"}:
        # An empty moment of the right kind, into which the parts are copied one by one.
        moment = optimizer._new_buffer(torch.empty(parameter.shape, device=parameter.device), _is_signed(key))
        for part, target in plain_tensors(moment).items():
            tensor = parts.get(part.removeprefix(":"))
            if tensor is None or tensor.shape != target.shape:
                raise KeyError(f"{key}{part}.{label}")
            target.copy_(tensor)
    elif set(parts) == {""} and parts[""].shape in (torch.Size(), parameter.shape):  # a step count has no shape
        moment = parts[""]
    else:
        raise KeyError(f"{key}.{label}")
    if not moment.dim():
        return moment
    held = optimizer._new_buffer(parameter, _is_signed(key))
    local = local_shard(held)
    if isinstance(moment, _Moment) and isinstance(local, _Moment):
        local.codes.copy_(local_shard(shard_like(moment.codes, parameter)))
        local.scale.copy_(_scale_per_block(local_shard(shard_like(_scale_per_number(moment), parameter)), local))
    else:
        local.copy_(local_shard(shard_like(_plain(moment), parameter)))
    return held


def _scale_per_number(moment: _Moment) -> Tensor:
    """Returns the scale of every number."""
    return moment.scale.repeat_interleave(moment.codes.numel() // len(moment.scale)).view(moment.codes.shape)


def _scale_per_block(spread: Tensor, moment: _Moment) -> Tensor:
    """Returns the scale of every block."""
    return spread.flatten()[:: moment.codes.numel() // len(moment.scale)]


def _is_signed(key: str) -> bool:
    return key == "exp_avg"


def _plain(value: Tensor) -> Tensor:
    return value.dequantize() if isinstance(value, _Moment) else value
