"""A model of any published size without its weights: drawn on the device, never on disk."""

from collections.abc import Sequence
from pathlib import Path

import torch

from gesso.bench.cells import Cell
from gesso.bench.machine import free_bytes
from gesso.config import ModelConfig
from gesso.engine.engine import Engine
from gesso.errors import CheckpointError, OptionError
from gesso.generation import GenerationConfig
from gesso.models.cache import cache_bytes
from gesso.models.describe import parameters
from gesso.models.diffusion_gemma import PREFILL_CHUNK, DiffusionGemma, initialise
from gesso.models.hf_config import read_config
from gesso.models.loading import pick_device, pick_dtype, read_json
from gesso.text.tokenizer import TokenIds

SEED = 0


def read_shape(path: Path) -> ModelConfig:
    """The config in a `config.json`, or in the folder that holds it.

    Raises:
        OptionError: there is no such file, or it is no config of a model of this family.
    """
    file = path / "config.json" if path.is_dir() else path
    if not file.is_file():
        raise OptionError(f"--random-weights {path}: there is no such file, or folder with a config.json")
    try:
        return read_config(read_json(file))
    except CheckpointError as error:
        raise OptionError(f"--random-weights {path}: {error}") from None


def needed_bytes(config: ModelConfig, dtype: torch.dtype, cells: Sequence[Cell]) -> int:
    """Of the weights, and of keys and values in the largest cell."""
    width = config.canvas_length
    widest = max(PREFILL_CHUNK, width)
    caches = (cell.batch * cache_bytes(config, dtype, cell.reach(width), widest) for cell in cells)
    return parameters(config)[0] * dtype.itemsize + max(caches)


def random_engine(config: ModelConfig, name: str, device: str, dtype: str, cells: Sequence[Cell]) -> Engine:
    """An engine over random weights, which takes token ids.

    Raises:
        OptionError: weights and caches do not fit what is free on the device; nothing has been allocated then.
    """
    target = pick_device(device)
    kind = pick_dtype(dtype, target, parameters(config)[0])
    needed, free = needed_bytes(config, kind, cells), free_bytes(target)
    if needed > free:
        raise OptionError(
            f"--random-weights {name}: weights and caches take {needed / 1e9:.1f} GB, {free / 1e9:.1f} GB are free"
        )
    with torch.device("meta"):
        model = DiffusionGemma(config).to(kind)
    model = model.to_empty(device=target)
    with torch.no_grad():
        for buffer in model.buffers():  # the layers' scalars
            buffer.fill_(1.0)
    initialise(model, SEED)
    defaults = GenerationConfig(pad_token_id=config.pad_token_id, eos_token_ids=(config.eos_token_id,))
    return Engine(model.eval().requires_grad_(False), TokenIds(), None, defaults, name)
