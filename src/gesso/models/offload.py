"""Plans which experts of a model lie on a device and which stream from host memory, where it cannot hold them all.

Everything but experts is on the device, and the experts of as many layers as there is room for, spread evenly; those of
the others are copied in every pass, two layers' at a time (`nn.layer_stream`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from gesso.errors import OptionError
from gesso.models.cache import cache_bytes
from gesso.models.diffusion_gemma import PREFILL_CHUNK, DiffusionGemma
from gesso.models.offload_plan import OffloadPlan
from gesso.models.tensors import find_tensor, open_file
from gesso.models.vision_names import VISION_PREFIXES
from gesso.nn.device_store import DeviceStore
from gesso.nn.layer_stream import PLACES
from gesso.options.sizes import named_size

CONTEXT = 8192
"""Tokens of keys and values that there must be room for, or as many as the model takes."""


@dataclass(frozen=True, slots=True)
class Offload:
    """Asks for a model on a device that may be too small for it."""

    device_memory: int
    """Bytes that may be used of the device."""
    working: int
    """Bytes of those for the passes themselves."""
    store: DeviceStore[Any]
    needs_all: Sequence[str] = ()
    """Options that were given and need all weights on the device."""
    tell: Callable[[str], None] | None = None
    """Is told what will be resident, and what a pass will cost, before weights are read."""


def plan_offload(
    model: DiffusionGemma, tower: int, device_memory: int, working: int, needs_all: Sequence[str] = ()
) -> OffloadPlan | None:
    """Plans for a model, packed layers and all, whose tensors need no storage; None where it fits whole.

    Args:
        tower: bytes of the vision tower.
        needs_all: options that need all weights on the device.

    Raises:
        OptionError: what must stay does not fit, or one of `needs_all` was given and experts would stream.
    """
    sizes = {name: tensor.nbytes for name, tensor in model.state_dict().items()}
    layers = len(model.config.layers)
    experts = [_size(sizes, f"layers.{number}.experts.") for number in range(layers)]
    one = max(experts)
    others = sum(sizes.values()) - sum(experts) + tower
    write = max(PREFILL_CHUNK, model.config.canvas_length)
    context = min(CONTEXT, model.config.max_position_embeddings)
    cache = cache_bytes(model.config, model.dtype, context, write)
    if others + sum(experts) + cache + working <= device_memory:
        return None
    least = others + PLACES * one + cache + working
    stay = (device_memory - least) // one
    if stay < 0:
        raise OptionError(
            f"{named_size(device_memory)} of device memory are too few: all but the experts, two layers' experts at a "
            f"time, {context:,} tokens of context and the passes themselves take {named_size(least, up=True)}",
            option="device_memory",
        )
    if min(experts) != one:
        raise OptionError(
            "the experts of some layers are packed otherwise than those of others: they cannot take turns in one place",
            option="device_memory",
        )
    streamed = layers - stay
    if needs_all:
        raise OptionError(
            f"{' and '.join(needs_all)} needs all weights on the device, and the experts of {streamed} of {layers} "
            "layers would not fit",
            option=needs_all[0],
        )
    resident, staged = others + stay * one, PLACES * one
    return OffloadPlan(
        device_memory=device_memory,
        resident=resident,
        staged=staged,
        working=working,
        cache=device_memory - resident - staged - working,
        streamed=streamed * one,
        layers=tuple(number * layers // streamed for number in range(streamed)),
        of=layers,
    )


def _size(sizes: Mapping[str, int], prefix: str) -> int:
    return sum(size for name, size in sizes.items() if name.startswith(prefix))


def tower_bytes(files: Mapping[str, Path], dtype: torch.dtype) -> int:
    """Counts the bytes that a checkpoint's vision tower takes in `dtype`.

    Args:
        files: of each tensor, by Hugging Face name.
    """
    total = 0
    for name, path in files.items():
        if name.startswith(VISION_PREFIXES):
            with open_file(path) as file:
                shape = find_tensor(file, name, path).get_shape()
            total += torch.Size(shape).numel() * dtype.itemsize
    return total
