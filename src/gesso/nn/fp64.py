"""Says where numbers of 64 bits are computed: Apple's GPUs have none, and leave them to the CPU."""

import torch
from torch import Tensor

WITHOUT_FP64 = frozenset({"mps"})
"""Kinds of devices."""


def fp64_device(device: torch.device) -> torch.device:
    """Returns the device, or the CPU in the place of one without fp64."""
    return torch.device("cpu") if device.type in WITHOUT_FP64 else device


def to_fp64(x: Tensor) -> Tensor:
    """Returns the tensor in fp64, on the CPU where its device has none."""
    return x.to(fp64_device(x.device)).double()
