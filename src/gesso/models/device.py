"""Chooses the device that a model is loaded on."""

import torch

from gesso.errors import OptionError

KNOWN = ("cpu", "cuda", "mps")
"""Kinds of devices; of CUDA's there may be several, by number."""


def pick_device(name: str) -> torch.device:
    """Resolves the name of a device: `auto` is CUDA, then MPS, then the CPU.

    Raises:
        OptionError: the device does not exist here.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in KNOWN or (device.type != "cuda" and device.index):
        raise OptionError(f"device {name!r} does not exist; known: auto, {', '.join(KNOWN)}", option="device")
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise OptionError(f"device {name}: PyTorch finds no Metal device here", option="device")
    if device.type != "cuda":
        return torch.device(device.type)
    if not torch.cuda.is_available():
        raise OptionError(f"device {name}: PyTorch finds no CUDA device here", option="device")
    if (device.index or 0) >= (count := torch.cuda.device_count()):
        message = f"device {name}: PyTorch finds {count} CUDA device{'s' * (count != 1)} here, numbered from 0"
        raise OptionError(message, option="device")
    return device


def avoid_cudnn_attention(device: torch.device) -> None:
    """Has this process go without cuDNN's attention from here on, where a model is loaded on CUDA: it makes a plan for
    every new shape, which takes longer than many passes."""
    if device.type == "cuda":
        torch.backends.cuda.enable_cudnn_sdp(False)
