"""Asks a device how much of it a model may use."""

from collections.abc import Callable, Sequence

import torch

from gesso.errors import OptionError
from gesso.models.offload import Offload
from gesso.nn.device_store import CudaStore
from gesso.runner.image_embeddings import KEPT_BYTES
from gesso.runner.memory import WORKING


def working_bytes(reserved: int) -> int:
    """Returns the bytes of a device that passes take beside weights and caches.

    Args:
        reserved: bytes that others take.
    """
    return WORKING + KEPT_BYTES + reserved


def offload_request(
    device: torch.device,
    device_memory: int | None,
    reserved: int,
    needs_all: Sequence[str] = (),
    tell: Callable[[str], None] | None = None,
) -> Offload | None:
    """Returns what loading is asked to stream by; None where a model lies in the machine's own memory.

    Args:
        device_memory: bytes that may be used; None for what is free.
        reserved: bytes of them that others take, beside the passes.
        needs_all, tell: of `Offload`.

    Raises:
        OptionError: `device_memory` without CUDA, or more than is free.
    """
    if device.type != "cuda":
        if device_memory is not None:
            raise OptionError(
                f"device_memory needs CUDA: on {device.type} weights lie in the machine's own memory",
                option="device_memory",
            )
        return None
    free = torch.cuda.mem_get_info(device)[0]
    if device_memory is not None and device_memory > free:
        raise OptionError(
            f"device_memory {device_memory / 1e9:.2f} GB is more than the {free / 1e9:.2f} GB that are free",
            option="device_memory",
        )
    return Offload(device_memory or free, working_bytes(reserved), CudaStore(device), needs_all, tell)
