"""Moments in 8 bits, as torchao holds them: in one piece for a checkpoint, and back into what every process holds.

A moment's numbers are codes, with a scale for every block of 256 in a row. A tensor of fewer than 4,096 numbers, or of
blocks that are not whole, keeps its moments as they are; in a group that goes for each process's part.
"""

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

from gesso.train.distributed import everywhere, like, local_part, parted, whole


@runtime_checkable
class EightBit(Protocol):
    """An optimiser of torchao's that holds its moments in 8 bits, small ones as they are."""

    def _new_buffer(self, p: Tensor, signed: bool) -> Tensor: ...


@runtime_checkable
class _Moment(Protocol):
    """A moment in 8 bits."""

    codes: Tensor
    scale: Tensor

    def dequantize(self) -> Tensor: ...


def parts_of(value: Tensor) -> dict[str, Tensor]:
    """The plain tensors that a state value is made of, by suffix."""
    if isinstance(value, _Moment):
        return {":codes": value.codes, ":scale": value.scale}
    return {"": value}


def whole_state(optimizer: EightBit, key: str, value: Tensor) -> Tensor:
    """A state in one piece: in 8 bits where every process holds its part so."""
    if not isinstance(value, DTensor):
        return value
    local = value.to_local()
    if not everywhere(isinstance(local, _Moment), local.device):
        return whole(parted(_plain(local), value))
    # Every part is whole blocks, so all of them together are the blocks of the whole.
    assert isinstance(local, _Moment)
    codes, scale = (whole(parted(part, value)) for part in (local.codes, _spread(local)))
    moment = optimizer._new_buffer(torch.empty(value.shape, device=codes.device), _is_signed(key))
    assert isinstance(moment, _Moment)
    moment.codes.copy_(codes)
    moment.scale.copy_(_gathered(scale, moment))
    return moment


def placed(optimizer: EightBit, parameter: Tensor, label: str, key: str, parts: Mapping[str, Tensor]) -> Tensor:
    """A state as this process holds it, from the whole one's parts.

    Raises:
        KeyError: it has another shape than the parameter.
    """
    if set(parts) == {"codes", "scale"}:
        # An empty moment of the right kind, into which the parts are copied one by one.
        moment = optimizer._new_buffer(torch.empty(parameter.shape, device=parameter.device), _is_signed(key))
        for part, target in parts_of(moment).items():
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
    local = local_part(held)
    if isinstance(moment, _Moment) and isinstance(local, _Moment):
        local.codes.copy_(local_part(like(moment.codes, parameter)))
        local.scale.copy_(_gathered(local_part(like(_spread(moment), parameter)), local))
    else:
        local.copy_(local_part(like(_plain(moment), parameter)))
    return held


def _spread(moment: _Moment) -> Tensor:
    """The scale of every number."""
    return moment.scale.repeat_interleave(moment.codes.numel() // len(moment.scale)).view(moment.codes.shape)


def _gathered(spread: Tensor, moment: _Moment) -> Tensor:
    """The scale of every block."""
    return spread.flatten()[:: moment.codes.numel() // len(moment.scale)]


def _is_signed(key: str) -> bool:
    return key == "exp_avg"


def _plain(value: Tensor) -> Tensor:
    return value.dequantize() if isinstance(value, _Moment) else value
