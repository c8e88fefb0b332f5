"""How much memory a service may hold keys and values in, where nobody says."""

import os

import torch

from gesso.engine.constraint import TABLE_BYTES

MOST_CPU, CPU_SHARE = 4 * 2**30, 0.25
"""Bytes at most, and of the machine's memory, on a CPU."""
WORKING = 2**30
"""Bytes that passes of the model take on a GPU beside weights and caches; constraints' tables come on top."""
UTILISATION = 0.9
"""Of a GPU's memory that a service uses in all."""


def default_kv_memory(device: torch.device, utilisation: float = UTILISATION) -> int:
    """Bytes for keys and values, once the weights are loaded."""
    if device.type == "cuda":
        _, total = torch.cuda.mem_get_info(device)
        return max(2**28, int(utilisation * total) - torch.cuda.memory_allocated(device) - WORKING - TABLE_BYTES)
    return int(min(MOST_CPU, CPU_SHARE * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")))
