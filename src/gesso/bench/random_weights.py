"""Makes a model of any published size without its weights: drawn on the device, never on disk."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from gesso.bench.cells import Cell
from gesso.bench.machine import free_bytes
from gesso.config import ModelConfig
from gesso.engine.engine import Engine
from gesso.errors import CheckpointError, OptionError
from gesso.generation import GenerationConfig
from gesso.json_files import read_json
from gesso.models.cache import cache_bytes
from gesso.models.device import avoid_cudnn_attention, pick_device
from gesso.models.diffusion_gemma import PREFILL_CHUNK, DiffusionGemma, initialise
from gesso.models.dtype import pick_dtype
from gesso.models.hf_config import read_config
from gesso.models.quantization.plan import Quantization, replace_layers
from gesso.nn.quant.base import Format
from gesso.nn.quant.fp8 import FP8
from gesso.nn.quant.integer import Int4, Int8
from gesso.nn.quant.layers import QuantizedExperts, QuantizedLinear
from gesso.nn.quant.vocabulary import QuantizedVocabulary
from gesso.options import keyword
from gesso.text.tokenizer import TokenIds

SEED = 0
FORMATS: dict[str, Format] = {"int8": Int8(), "int4": Int4(), "fp8": FP8()}
EMBEDDING_FORMATS: dict[str, Format] = {"int8": Int8(), "int4": Int4()}
"""Formats that a checkpoint's table may have."""
TABLE_ROWS = 1 << 12
"""Rows of the table that are drawn and packed at a time."""


def read_shape(path: Path, option: str = "random_weights") -> ModelConfig:
    """Reads the config of a `config.json`, or of the folder that holds it.

    Raises:
        OptionError: there is no such file, or it is no config of a model of this family.
    """
    file = path / "config.json" if path.is_dir() else path
    if not file.is_file():
        raise OptionError(
            f"--{option.replace('_', '-')} {path}: there is no such file, or folder with a config.json", option=option
        )
    try:
        return read_config(read_json(file))
    except CheckpointError as error:
        raise OptionError(f"--{option.replace('_', '-')} {path}: {error}", option=option) from None


def read_formats(quantize: str | None, embedding: str | None = None) -> Quantization:
    """Reads what `--quantize` says of linear layers and experts, and `--quantize-embedding` of the table; None leaves
    them as they are.

    Raises:
        OptionError: a format that does not exist.
    """
    form = _format("--quantize", quantize, FORMATS)
    return Quantization(form, form, _format("--quantize-embedding", embedding, EMBEDDING_FORMATS))


def _format(option: str, name: str | None, known: dict[str, Format]) -> Format | None:
    if name is not None and name not in known:
        raise OptionError(f"{option} {name!r} does not exist; known: {', '.join(known)}", option=keyword(option))
    return None if name is None else known[name]


def empty_model(config: ModelConfig, dtype: torch.dtype, chosen: Quantization | None = None) -> DiffusionGemma:
    """Makes a model on PyTorch's meta device: shapes without numbers.

    Raises:
        OptionError: a layer's width cannot be cut into groups.
    """
    with torch.device("meta"):
        model = DiffusionGemma(config).to(dtype)
    chosen = chosen or Quantization()
    table = Quantization(embedding=chosen.embedding)
    for option, part in {"--quantize": replace(chosen, embedding=None), "--quantize-embedding": table}.items():
        try:
            replace_layers(model, part)
        except OptionError as error:
            raise OptionError(f"{option}: {error}", option=keyword(option)) from None
    return model


def needed_bytes(
    config: ModelConfig, dtype: torch.dtype, cells: Sequence[Cell], chosen: Quantization | None = None
) -> int:
    """Counts the bytes of the weights, and of keys and values in the largest cell."""
    width = config.canvas_length
    max_write_len = max(PREFILL_CHUNK, width)
    caches = (cell.batch * cache_bytes(config, dtype, cell.reach(width), max_write_len) for cell in cells)
    weights: int = sum(tensor.nbytes for tensor in empty_model(config, dtype, chosen).state_dict().values())
    return weights + max(caches)


def random_engine(
    config: ModelConfig,
    name: str,
    device: str,
    dtype: str,
    cells: Sequence[Cell],
    chosen: Quantization | None = None,
) -> Engine:
    """Makes an engine over random weights, which takes token ids.

    Raises:
        OptionError: a layer's width cannot be cut into groups, or weights and caches do not fit what is free on the
            device; nothing has been allocated then.
    """
    target = pick_device(device)
    avoid_cudnn_attention(target)
    whole = sum(parameter.numel() for parameter in empty_model(config, torch.bfloat16, chosen).parameters())
    kind = pick_dtype(dtype, target, whole)
    needed, free = needed_bytes(config, kind, cells, chosen), free_bytes(target)
    if needed > free:
        raise OptionError(
            f"--random-weights {name}: weights and caches take {needed / 1e9:.1f} GB, {free / 1e9:.1f} GB are free",
            option="random_weights",
        )
    model = random_model(config, kind, target, chosen)
    defaults = GenerationConfig(pad_token_id=config.pad_token_id, eos_token_ids=(config.eos_token_id,))
    return Engine(model, TokenIds(), None, defaults, name)


@torch.no_grad()
def random_model(
    config: ModelConfig, dtype: torch.dtype, device: torch.device, chosen: Quantization | None = None
) -> DiffusionGemma:
    """Makes a model for inference with random weights, drawn on the device.

    Raises:
        OptionError: a layer's width cannot be cut into groups.
    """
    model = empty_model(config, dtype, chosen).to_empty(device=device)
    for label, buffer in model.named_buffers():
        if label.endswith("_scalar"):
            buffer.fill_(1.0)
    initialise(model, SEED)
    _draw_packed(model)
    return model.eval().requires_grad_(False)


@torch.no_grad()
def _draw_packed(model: DiffusionGemma) -> None:
    """Random weights of what is in few bits, packed a matrix at a time, the table a tile at a time; deviations and
    biases are as `initialise` has them."""
    generator = torch.Generator(device=model.device).manual_seed(SEED)
    usual = model.config.initializer_range

    def fill(parts: Iterable[Tensor], form: Format, shape: tuple[int, int], deviation: float = usual) -> None:
        weight = torch.empty(shape, device=model.device).normal_(0.0, deviation, generator=generator)
        for part, made in zip(parts, form.quantize(weight), strict=True):
            part.copy_(made)

    for module in model.modules():
        if isinstance(module, QuantizedLinear):
            parts = [module.get_buffer(name) for name in module.form.parts]
            fill(parts, module.form, (module.out_features, module.in_features))
            if module.bias is not None:
                module.bias.zero_()
        elif isinstance(module, QuantizedExperts):
            for expert in range(module.num_experts):
                for prefix, shape in zip(("gate_up_", "down_"), module.shapes, strict=True):
                    fill([module.get_buffer(prefix + name)[expert] for name in module.form.parts], module.form, shape)
        elif isinstance(module, QuantizedVocabulary):
            for tiles in zip(*(part.split(TABLE_ROWS) for part in module.parts), strict=True):
                fill(tiles, module.form, (len(tiles[0]), module.width), module.width**-0.5)
