"""Picks formats by the memory that a model may take: the most bits that fit, and none where it fits as it is."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from gesso.config import ModelConfig
from gesso.errors import OptionError
from gesso.models.cache import cache_bytes
from gesso.models.diffusion_gemma import PREFILL_CHUNK, DiffusionGemma
from gesso.models.loading import read_model_config, weight_files
from gesso.models.quantization.plan import Quantization, replace_layers
from gesso.models.tensors import read_tensor
from gesso.models.vision_names import VISION_PREFIXES
from gesso.nn.quant.integer import Int4, Int8
from gesso.options.sizes import named_size

CONTEXT = 8192
"""Tokens of keys and values that are counted, as many as a long chat has."""
CHOICES: Sequence[Quantization] = (
    Quantization(Int8(), Int8()),
    Quantization(Int8(), Int8(), Int8()),
    Quantization(Int8(), Int4(64), Int8()),
    Quantization(Int4(64), Int4(64), Int8()),
    Quantization(Int4(128), Int4(128), Int8()),
    Quantization(Int4(128), Int4(128), Int4(128)),
)
"""Choices from the most bits to the fewest."""


@dataclass(frozen=True, slots=True)
class Fit:
    """Tells what was picked, and the memory that it takes."""

    chosen: Quantization | None
    """None where the model fits as it is."""
    bytes: int


def pick(folder: Path, limit: int) -> Fit:
    """Picks formats for the checkpoint in a folder, as `pick_formats` does.

    Raises:
        OptionError: none fits.
        CheckpointError: the checkpoint cannot be used.
    """
    return pick_formats(read_model_config(folder), _tower_bytes(folder), limit)


def pick_formats(config: ModelConfig, tower: int, limit: int) -> Fit:
    """Picks the first of `CHOICES` whose weights and `CONTEXT` tokens take up to `limit` bytes, if the whole weights
    take more.

    Args:
        tower: bytes of the vision tower, which stays whole.

    Raises:
        OptionError: none does.
    """
    smallest = tower + counted_bytes(config, Quantization())
    if smallest <= limit:
        return Fit(None, smallest)
    for chosen in CHOICES:
        try:
            smallest = tower + counted_bytes(config, chosen)
        except OptionError:  # its width cannot be cut into such groups
            continue
        if smallest <= limit:
            return Fit(chosen, smallest)
    raise OptionError(
        f"--fit {named_size(limit)} is too small: in the fewest bits the model and {CONTEXT:,} tokens take "
        f"{named_size(smallest, up=True)}",
        option="fit",
        hint="it need not fit: a smaller GPU streams experts (--device-memory), a CPU reads weights from the disk",
    )


def counted_bytes(config: ModelConfig, chosen: Quantization) -> int:
    """Counts the weights of the text model, what is not packed in bfloat16, and keys and values of `CONTEXT` tokens."""
    with torch.device("meta"):
        model = DiffusionGemma(config).to(torch.bfloat16)
        replace_layers(model, chosen)
    weights: int = sum(tensor.nbytes for tensor in model.state_dict().values())
    return weights + cache_bytes(config, torch.bfloat16, CONTEXT, max(PREFILL_CHUNK, config.canvas_length))


def _tower_bytes(folder: Path) -> int:
    total = 0
    for name, path in weight_files(folder).items():
        if name.startswith(VISION_PREFIXES):
            total += read_tensor(name, path).nbytes
    return total
