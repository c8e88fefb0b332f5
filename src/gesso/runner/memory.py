"""Computes how much memory of a device keys and values may take, where no option says."""

import os

import torch

MOST_CPU, CPU_SHARE = 4 * 2**30, 0.25
"""Bytes at most on a CPU, and share of the machine's memory."""
LEAST_GPU = 2**28
"""Bytes at least on a GPU."""
WORKING = 2**30
"""Bytes that a GPU keeps free for passes of the model, beside weights and caches."""
UTILISATION = 0.9
"""Share of a GPU's memory that is used in all."""


def cache_memory(device: torch.device, reserved: int, utilisation: float = UTILISATION) -> int:
    """Returns the bytes for keys and values, once the weights are loaded.

    Args:
        reserved: bytes of a GPU that others take.
        utilisation: share of a GPU's memory that is used in all.
    """
    if device.type == "cuda":
        _, total = torch.cuda.mem_get_info(device)
        return max(LEAST_GPU, int(utilisation * total) - torch.cuda.memory_allocated(device) - WORKING - reserved)
    return int(min(MOST_CPU, CPU_SHARE * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")))
