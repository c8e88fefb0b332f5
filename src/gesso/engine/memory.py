"""Computes how much memory a service may hold keys and values in, where no option says."""

import torch

from gesso.engine.constraint import TABLE_BYTES
from gesso.runner.memory import UTILISATION, cache_memory


def default_kv_memory(device: torch.device, utilisation: float = UTILISATION) -> int:
    """Returns the bytes for keys and values on a device, once the weights are loaded and the constraints' tables are
    reserved."""
    return cache_memory(device, TABLE_BYTES, utilisation)
