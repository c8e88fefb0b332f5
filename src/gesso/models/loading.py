"""A checkpoint folder into a model, and back.

Weights come from safetensors only, memory-mapped, tensor by tensor straight to the target device and dtype, so
that loading takes little more memory than the weights. Everything that does not fit is refused by name.
"""

import errno
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from gesso.config import GenerationConfig, ModelConfig
from gesso.errors import CheckpointError, OptionError
from gesso.models import hf_config, hf_generation_config
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.state_dict_adapter import VISION_PREFIXES, encoder_copy, tied_to, to_hf
from gesso.nn.quantized import quantized_like, quantized_tensors

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
SHARD_BYTES = 5 * 10**9
CPU_FLOAT32_BYTES = 4 * 10**9
_OWN_FILE = re.compile(r"model(-\d{5}-of-\d{5})?\.safetensors")


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file of a checkpoint.

    Raises:
        CheckpointError: the file is missing or no JSON object.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(f"{path.name} is missing in {path.parent}") from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise CheckpointError(f"{path} is no JSON: {error}") from None
    if not isinstance(value, dict):
        raise CheckpointError(f"{path} holds no JSON object")
    return value


def read_model_config(folder: Path) -> ModelConfig:
    if (folder / "hf_quant_config.json").exists():
        quant = read_json(folder / "hf_quant_config.json").get("quantization", {}).get("quant_algo", "unknown")
        raise CheckpointError(f"{folder}: quantized ({quant}, hf_quant_config.json), which gesso cannot read yet")
    return hf_config.read_config(read_json(folder / "config.json"))


def read_generation_defaults(folder: Path, config: ModelConfig) -> GenerationConfig:
    path = folder / "generation_config.json"
    return hf_generation_config.read_generation_config(read_json(path) if path.exists() else {}, config)


def pick_device(name: str) -> torch.device:
    """`auto` is CUDA, then MPS, then the CPU; anything else must be there."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise OptionError(f"device {name!r} does not exist; known: auto, cpu, cuda, mps") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise OptionError("device cuda: PyTorch finds no CUDA device here")
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise OptionError("device mps: PyTorch finds no Metal device here")
    return device


def pick_dtype(name: str, device: torch.device, parameters: int = 0) -> torch.dtype:
    """`auto` is float32 on the CPU for models of up to `CPU_FLOAT32_BYTES`, else bfloat16."""
    if name == "auto":
        small = device.type == "cpu" and 4 * parameters <= CPU_FLOAT32_BYTES
        name = "float32" if small else "bfloat16"
    if name not in DTYPES:
        raise OptionError(f"dtype {name!r} does not exist; known: auto, {', '.join(DTYPES)}")
    return DTYPES[name]


def load_folder(
    folder: Path, device: str = "auto", dtype: str = "auto", quantize: Literal["nf4"] | None = None
) -> DiffusionGemma:
    """The text model of a checkpoint folder.

    Args:
        quantize: hold linear layers and experts in 4 bits, made tensor by tensor while loading. Embeddings, norms and
            routers keep `dtype`.

    Raises:
        CheckpointError: missing, unknown, misshapen, truncated or quantized weights, or another model type.
        ConfigError: an unknown key or impossible value in `config.json`.
        OptionError: a device or dtype that does not exist here.
    """
    target = pick_device(device)
    pick_dtype(dtype, target)
    config = read_model_config(folder)
    with torch.device("meta"):
        model = DiffusionGemma(config)
    kind = pick_dtype(dtype, target, sum(p.numel() for p in model.parameters()))
    shapes = {name: tensor.shape for name, tensor in model.state_dict().items()}
    convert = _keep if quantize is None else _quantizer(replace_by_four_bits(model))
    model.load_state_dict(_tensors(folder, shapes, target, kind, convert), strict=True, assign=True)
    return model.eval().requires_grad_(False)


Convert = Callable[[str, Tensor], dict[str, Tensor]]
"""A tensor of the plain model, by name, into the tensors of the model that is loaded."""


def _keep(name: str, tensor: Tensor) -> dict[str, Tensor]:
    return {name: tensor}


def _quantizer(layers: list[str]) -> Convert:
    def convert(name: str, tensor: Tensor) -> dict[str, Tensor]:
        return quantized_tensors(name, tensor) if name.rpartition(".")[0] in layers else {name: tensor}

    return convert


def replace_by_four_bits(model: DiffusionGemma) -> list[str]:
    """Put empty 4-bit layers in the place of all linear layers and experts but the routers; returns their names.

    Raises:
        OptionError: a layer's width cannot be cut into groups.
    """
    replaced = []
    for name, module in list(model.named_modules()):
        if name.endswith("router.proj"):
            continue
        try:
            with torch.device("meta"):
                new = quantized_like(module)
        except ValueError as error:
            raise OptionError(f"{name} cannot be held in 4 bits: {error}") from None
        if new is not None:
            parent, _, label = name.rpartition(".")
            setattr(model.get_submodule(parent), label, new)
            replaced.append(name)
    return replaced


def weight_files(folder: Path) -> dict[str, Path]:
    """Which file holds which tensor, by Hugging Face name."""
    if (folder / INDEX).exists():
        weight_map = read_json(folder / INDEX).get("weight_map")
        if not isinstance(weight_map, dict) or not all(isinstance(file, str) for file in weight_map.values()):
            raise CheckpointError(f"{INDEX} in {folder} has no weight_map from tensors to file names")
        files = {name: folder / Path(file).name for name, file in weight_map.items()}
        for path in sorted(set(files.values())):
            if not path.exists():
                raise CheckpointError(f"{path.name}, named by {INDEX}, is missing in {folder}")
        return files
    single = folder / SINGLE
    if not single.exists():
        raise CheckpointError(f"no {SINGLE} and no {INDEX} in {folder}: gesso reads safetensors only")
    return dict.fromkeys(_open(single).keys(), single)


def _open(path: Path, device: str = "cpu") -> Any:
    try:
        return safe_open(path, framework="pt", device=device)
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path} is truncated or no safetensors file: {error}") from None


def _tensors(
    folder: Path, shapes: dict[str, torch.Size], device: torch.device, dtype: torch.dtype, convert: Convert
) -> dict[str, Tensor]:
    files = weight_files(folder)
    wanted = {to_hf(name): (name, shape) for name, shape in shapes.items()}
    copies = {name: tied for name in files if (tied := tied_to(name)) in wanted}
    foreign = [n for n in files if n not in wanted and n not in copies and not n.startswith(VISION_PREFIXES)]
    if foreign:
        raise CheckpointError(f"unknown tensors in {folder}: {_names(foreign)}")
    missing = [name for name in wanted if name not in files]
    if missing:
        raise CheckpointError(f"tensors missing in {folder}: {_names(missing)}")
    loaded: dict[str, Tensor] = {}
    for path in sorted({files[name] for name in wanted}):
        with _open(path, str(device)) as file:
            present = set(file.keys())
            for hf_name in (name for name in wanted if files[name] == path):
                if hf_name not in present:
                    raise CheckpointError(f"{path.name} lacks {hf_name}, which {INDEX} says it holds")
                name, shape = wanted[hf_name]
                found = tuple(file.get_slice(hf_name).get_shape())
                if found != tuple(shape):
                    raise CheckpointError(f"{hf_name} has shape {list(found)}, the config says {list(shape)}")
                tensor = file.get_tensor(hf_name)
                if not tensor.is_floating_point() or tensor.element_size() < 2:
                    raise CheckpointError(f"{hf_name} is {tensor.dtype}: quantized, which gesso cannot read yet")
                loaded |= convert(name, tensor.to(dtype))
    for copy, original in copies.items():
        with _open(files[copy]) as file, _open(files[original]) as other:
            if not torch.equal(file.get_tensor(copy).to(dtype), other.get_tensor(original).to(dtype)):
                raise CheckpointError(f"{copy} differs from {original}; gesso reads tied checkpoints only")
    return loaded


def _names(names: list[str]) -> str:
    shown = ", ".join(sorted(names)[:4])
    return shown if len(names) <= 4 else f"{shown} and {len(names) - 4} more"


def save_folder(
    model: DiffusionGemma,
    folder: Path,
    *,
    dtype: str = "float32",
    generation: GenerationConfig | None = None,
    source: Path | None = None,
    gather: Callable[[Tensor], Tensor] = torch.Tensor.detach,
    writes: bool = True,
) -> None:
    """Write a checkpoint that gesso and `transformers` load.

    Args:
        source: the folder the model came from: its vision weights, tokenizer and template are carried over.
        gather: what makes a whole tensor of one that lies in parts on several processes. All of them call this
            function, with the same model; only one `writes`.
    """
    config, kind = model.config, DTYPES[dtype]
    if writes:
        folder.mkdir(parents=True, exist_ok=True)
        _write_json(folder / "config.json", hf_config.write_config(config, dtype))
        stops = GenerationConfig(pad_token_id=config.pad_token_id, eos_token_ids=(config.eos_token_id,))
        settings = hf_generation_config.write_generation_config(generation or stops, config)
        _write_json(folder / "generation_config.json", settings)
        if source is not None:
            copy_text_files(source, folder)
    tensors = model.state_dict()
    shards = _shards(tensors, kind)
    vision = dict(_vision(source)) if source is not None and writes else {}
    count = len(shards) + bool(vision)
    files = [SINGLE if count == 1 else f"model-{i + 1:05d}-of-{count:05d}.safetensors" for i in range(count)]
    for file, shard in zip(files, shards, strict=False):
        part: dict[str, Tensor] = {}
        for name in shard:
            whole = gather(tensors[name])
            if writes:
                for hf_name in _hf_names(name):
                    part[hf_name] = whole.to("cpu", kind, copy=hf_name != to_hf(name)).contiguous()
        if writes:
            _write_tensors(folder / file, part)
    if not writes:
        return
    if vision:
        _write_tensors(folder / files[-1], vision)
    if count > 1:
        names = {hf_name: files[i] for i, shard in enumerate(shards) for name in shard for hf_name in _hf_names(name)}
        names |= dict.fromkeys(vision, files[-1])
        total = sum((folder / file).stat().st_size for file in files)
        _write_json(folder / INDEX, {"metadata": {"total_size": total}, "weight_map": dict(sorted(names.items()))})
    _remove_stale(folder, files)


def _shards(tensors: dict[str, Tensor], dtype: torch.dtype) -> list[list[str]]:
    """Names of the tensors of each file, at most `SHARD_BYTES` a file where one tensor is not more already."""
    shards: list[list[str]] = []
    size = SHARD_BYTES
    for name, tensor in tensors.items():
        bytes_ = tensor.numel() * dtype.itemsize
        if size + bytes_ > SHARD_BYTES:
            shards.append([])
            size = 0
        shards[-1].append(name)
        size += bytes_
    return shards


def copy_text_files(source: Path, folder: Path) -> None:
    """Copy tokenizer, chat template and processor settings."""
    for path in source.iterdir():
        known = path.name.startswith(("tokenizer", "special_tokens", "chat_template", "processor", "preprocessor"))
        if known and path.resolve() != (folder / path.name).resolve():
            shutil.copy(path, folder / path.name)


def _remove_stale(folder: Path, files: list[str]) -> None:
    """Take away what an earlier checkpoint left here: it would be read instead of `files`."""
    if len(files) == 1:
        (folder / INDEX).unlink(missing_ok=True)
    for path in folder.iterdir():
        if _OWN_FILE.fullmatch(path.name) and path.name not in files:
            path.unlink()


def _hf_names(name: str) -> list[str]:
    copy = encoder_copy(name)
    return [to_hf(name)] if copy is None else [to_hf(name), copy]


def _vision(source: Path) -> Iterator[tuple[str, Tensor]]:
    for name, path in weight_files(source).items():
        if name.startswith(VISION_PREFIXES):
            with _open(path) as file:
                yield name, file.get_tensor(name)


def write_safetensors(tensors: dict[str, Tensor], path: Path) -> None:
    """Write a file; what cannot be written, for want of space say, is an `OSError`, as for other files."""
    try:
        save_file(tensors, path, metadata={"format": "pt"})
    except SafetensorError as error:
        raise OSError(errno.EIO, str(error), str(path)) from error


def _write_tensors(path: Path, tensors: dict[str, Tensor]) -> None:
    partial = path.with_suffix(".partial")
    write_safetensors(tensors, partial)
    os.replace(partial, path)


def _write_json(path: Path, value: dict[str, Any]) -> None:
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
    os.replace(partial, path)
