"""Saves a model into a checkpoint folder that gesso and `transformers` load: names, shards, configs, text files."""

import errno
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from gesso.errors import HubError, OptionError
from gesso.generation import GenerationConfig
from gesso.models import hf_config, hf_generation_config
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.dtype import DTYPES, dtype_name
from gesso.models.hub import resolve
from gesso.models.loading import weight_files
from gesso.models.quantization import modelopt
from gesso.models.quantization.plan import refuse_quantized
from gesso.models.staging import staged
from gesso.models.state_dict_adapter import encoder_copy, to_hf
from gesso.models.tensors import cast_finite, read_tensor
from gesso.models.vision_loading import vision_tensors, with_vision_config
from gesso.models.vision_names import VISION_PREFIXES
from gesso.models.vision_tower import VisionModel
from gesso.models.weight_index import INDEX, SINGLE
from gesso.options.paths import checked_path

SHARD_BYTES = 5 * 10**9
_WEIGHTS_FILE = re.compile(r"model(-\d{5}(-of-\d{5})?)?\.safetensors")


def refuse_filled(out: Path) -> None:
    """Refuses a folder to write a checkpoint into that holds something.

    Raises:
        OptionError: it does, or it is no folder.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise OptionError(f"--out {out} is there already and no empty folder: name another", option="out")


def save_folder(
    model: DiffusionGemma,
    folder: Path | str,
    *,
    dtype: str | torch.dtype = "float32",
    generation: GenerationConfig | None = None,
    source: Path | str | None = None,
    vision: VisionModel | None = None,
    gather: Callable[[Tensor], Tensor] = torch.Tensor.detach,
    writes: bool = True,
) -> None:
    """Writes a checkpoint that gesso and `transformers` load; one that lies in `folder` is replaced as a whole.

    Args:
        source: the folder the model came from, or the name it was loaded by: its vision weights, tokenizer and template
            are carried over. Without it a checkpoint takes token ids only.
        vision: a tower and projector that take the place of the source's; written in `dtype`.
        gather: makes a full tensor of one that is sharded over several processes. All of them call this function, with
            the same model; only one `writes`.

    Raises:
        OptionError: the model is quantized, `vision` is for a text model of another width, there is no such `dtype`,
            `folder` is a file, or `source` no folder.
        CheckpointError: `dtype` cannot hold a weight.
    """
    if not isinstance(model, torch.nn.Module):
        message = f"model must be what gesso.load_model returns, or an engine's model, got {model!r:.60}"
        raise OptionError(message, option="model")
    refuse_quantized(model, "writing a checkpoint")
    folder, source = checked_path("folder", folder), None if source is None else checked_path("source", source)
    dtype = dtype_name(dtype)
    if dtype not in DTYPES:
        raise OptionError(f"dtype {dtype!r} does not exist; known: {', '.join(DTYPES)}", option="dtype")
    if folder.exists() and not folder.is_dir():
        raise OptionError(f"{folder} is a file, and a checkpoint is a folder", option="folder")
    if source is not None and not source.is_dir():
        try:
            source = resolve(str(source), offline=True)
        except HubError:
            raise OptionError(
                f"source {source} is no folder, and no model of this name is here", option="source"
            ) from None
    config = with_vision_config(model.config, vision)
    if not writes:
        _write_weights(model, None, DTYPES[dtype], {}, gather)
        return
    with staged(folder, _is_stale) as partial:
        stops = GenerationConfig(pad_token_id=config.pad_token_id, eos_token_ids=(config.eos_token_id,))
        settings = hf_generation_config.write_generation_config(generation or stops, config)
        write_json(partial / hf_generation_config.FILE, settings)
        if own := hf_generation_config.write_own_defaults(generation or stops):
            write_json(partial / hf_generation_config.OWN_FILE, own)
        if source is not None:
            copy_text_files(source, partial)
        images = dict(_vision(vision, source, DTYPES[dtype]))
        _write_weights(model, partial, DTYPES[dtype], images, gather)
        write_json(partial / "config.json", hf_config.write_config(config, dtype))


def _write_weights(
    model: DiffusionGemma,
    folder: Path | None,
    kind: torch.dtype,
    images: dict[str, Tensor],
    gather: Callable[[Tensor], Tensor],
) -> None:
    """Writes the weights' files, and their index where there are several.

    Args:
        folder: None only gathers, for another process that writes.
        images: tensors that are written beside the model's.
    """
    tensors = model.state_dict()
    shards = _shards(tensors, kind)
    count = len(shards) + bool(images)
    files = [SINGLE if count == 1 else f"model-{i + 1:05d}-of-{count:05d}.safetensors" for i in range(count)]
    for file, shard in zip(files, shards, strict=False):
        part: dict[str, Tensor] = {}
        for name in shard:
            whole = gather(tensors[name])
            if folder is not None:
                part |= _named(name, whole, kind)
        if folder is not None:
            write_tensors(folder / file, part)
    if folder is None:
        return
    if images:
        write_tensors(folder / files[-1], images)
    if count > 1:
        names = {hf_name: files[i] for i, shard in enumerate(shards) for name in shard for hf_name in _hf_names(name)}
        write_index(folder, names | dict.fromkeys(images, files[-1]))


def _named(name: str, whole: Tensor, kind: torch.dtype) -> dict[str, Tensor]:
    """Returns what is written of a tensor, by Hugging Face name."""
    first, *copies = _hf_names(name)
    host = whole.to("cpu")
    written = (host if host.dtype == kind else cast_finite(first, host, kind)).contiguous()
    return {first: written} | {copy: written.clone() for copy in copies}


def _shards(tensors: dict[str, Tensor], dtype: torch.dtype) -> list[list[str]]:
    """Divides the tensors' names into files, at most `SHARD_BYTES` a file where one tensor is not more already."""
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
    """Copies tokenizer, chat template and processor settings, whatever may be written of the source."""
    for path in source.iterdir():
        known = path.name.startswith(("tokenizer", "special_tokens", "chat_template", "processor", "preprocessor"))
        if known and path.is_file() and path.resolve() != (folder / path.name).resolve():
            partial = folder / f".{path.name}.partial"
            shutil.copyfile(path, partial)
            os.replace(partial, folder / path.name)


def _is_stale(name: str) -> bool:
    """Says of a file's name that an earlier checkpoint left it, and that it would be read instead of another's."""
    return name in (INDEX, hf_generation_config.OWN_FILE, modelopt.FILE) or _WEIGHTS_FILE.fullmatch(name) is not None


def _hf_names(name: str) -> list[str]:
    copy = encoder_copy(name)
    return [to_hf(name)] if copy is None else [to_hf(name), copy]


def _vision(vision: VisionModel | None, source: Path | None, kind: torch.dtype) -> Iterator[tuple[str, Tensor]]:
    """Yields the tensors of a tower by their published names, or else those of the source, as they are stored."""
    if vision is not None:
        for name, tensor in vision_tensors(vision).items():
            yield name, tensor.to("cpu", kind).contiguous()
        return
    for name, path in (weight_files(source) if source else {}).items():
        if name.startswith(VISION_PREFIXES):
            yield name, read_tensor(name, path)


def write_safetensors(tensors: dict[str, Tensor], path: Path, metadata: Mapping[str, str] | None = None) -> None:
    """Writes a file that is read by whoever may read new files: the library leaves it to its owner alone.

    Args:
        metadata: texts for the file's header, beside the one that names its format.

    Raises:
        OSError: it cannot be written, for want of space say.
    """
    path.unlink(missing_ok=True)
    path.touch()
    mode = path.stat().st_mode
    try:
        save_file(tensors, path, metadata={"format": "pt", **(metadata or {})})
    except SafetensorError as error:
        raise OSError(errno.EIO, str(error), str(path)) from error
    if metadata:
        _sort_metadata(path)
    path.chmod(mode)


def _sort_metadata(path: Path) -> None:
    """Puts the texts of a file's header in the order of their names: the library writes them in one that differs from
    process to process, and so would files of the same weights."""
    with path.open("r+b") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
        header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
        written = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
        if len(written) <= length:
            file.seek(8)
            file.write(written.ljust(length))


def write_tensors(path: Path, tensors: dict[str, Tensor], metadata: Mapping[str, str] | None = None) -> None:
    """Writes a file atomically; see `write_safetensors`."""
    partial = path.with_suffix(".partial")
    write_safetensors(tensors, partial, metadata)
    os.replace(partial, path)


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Writes a file atomically."""
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
    os.replace(partial, path)


def write_index(folder: Path, weight_map: Mapping[str, str]) -> int:
    """Writes the index of the weights' files in a folder; returns the bytes of these.

    Args:
        weight_map: the name of each tensor's file, by the tensor's Hugging Face name.
    """
    total = sum((folder / file).stat().st_size for file in set(weight_map.values()))
    write_json(folder / INDEX, {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))})
    return total
