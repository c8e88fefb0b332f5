"""Computes how much memory of a device keys and values may take, and how much of a prompt is encoded at a time, where
no option says."""

import torch

from gesso.nn.host_memory import total_bytes

MOST_CPU, CPU_SHARE = 4 * 2**30, 0.25
"""Bytes at most on a CPU, and share of the machine's memory."""
LEAST_GPU = 2**28
"""Bytes at least on a GPU."""
WORKING = 2**30
"""Bytes that a GPU keeps free for passes of the model, beside weights and caches."""
UTILISATION = 0.9
"""Share of a GPU's memory that is used in all."""
CPU_CHUNK, CHUNK, WIDE_CHUNK = 128, 512, 2048
"""Prompt tokens encoded at a time: on a CPU, elsewhere, and on a GPU of `WIDE_MEMORY` that holds all weights, which it
would read for every few tokens."""
WIDE_MEMORY = 40e9
"""Bytes of a GPU on which the keys that are written at once, 0.3 GB more at the published size, do not matter."""


def prefill_chunk(device: torch.device, *, holds_all: bool) -> int:
    """Returns the number of prompt tokens encoded at a time on a device.

    Args:
        holds_all: whether the device holds all weights; else experts stream to it.
    """
    if device.type == "cpu":
        return CPU_CHUNK
    wide = device.type == "cuda" and torch.cuda.get_device_properties(device).total_memory >= WIDE_MEMORY
    return WIDE_CHUNK if wide and holds_all else CHUNK


def cache_memory(device: torch.device, reserved: int, utilisation: float = UTILISATION) -> int:
    """Returns the bytes for keys and values, once the weights are loaded.

    Args:
        reserved: bytes of a GPU that others take.
        utilisation: share of a GPU's memory that is used in all.
    """
    if device.type == "cuda":
        _, total = torch.cuda.mem_get_info(device)
        return max(LEAST_GPU, int(utilisation * total) - torch.cuda.memory_allocated(device) - WORKING - reserved)
    return int(min(MOST_CPU, CPU_SHARE * total_bytes()))
