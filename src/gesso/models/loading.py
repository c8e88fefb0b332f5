"""Loads a model from a checkpoint folder; `gesso.models.saving` has the way back.

Weights come from safetensors only, memory-mapped, tensor by tensor straight to the target device and dtype, so
that loading takes little more memory than the weights. Everything that does not fit is refused by name.
"""

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from gesso.config import ModelConfig, ModelShape
from gesso.errors import CheckpointError, OptionError
from gesso.generation import GenerationConfig
from gesso.json_files import read_json
from gesso.models import hf_config, hf_generation_config
from gesso.models.device import avoid_cudnn_attention, pick_device
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.dtype import DTYPES, pick_dtype
from gesso.models.expert_parts import is_of_experts, keep_experts
from gesso.models.offload import Offload, plan_offload, tower_bytes
from gesso.models.offload_plan import OffloadPlan
from gesso.models.quantization import modelopt
from gesso.models.quantization.plan import QLORA, Quantization, read_quantization, replace_layers
from gesso.models.state_dict_adapter import to_hf
from gesso.models.tensors import cast_finite, check_copies, check_finite, open_checked, open_file, sources
from gesso.models.weight_index import INDEX, SINGLE, read_index
from gesso.nn.cpu_threads import use_performance_cores
from gesso.nn.host_memory import keep_freed_memory
from gesso.nn.layer_stream import LayerStream
from gesso.nn.quant.base import Format
from gesso.nn.quant.layers import quantized_tensors

GGUF = "model.gguf"


def read_model_config(folder: Path) -> ModelConfig:
    """Reads the shape of a checkpoint's text model.

    Raises:
        CheckpointError: no `config.json`, or one of another model or of weights packed in an unknown way.
        ConfigError: an unknown key or an impossible value.
    """
    stored_quantization(folder)
    return hf_config.read_config(read_json(folder / "config.json"))


def stored_quantization(folder: Path) -> Quantization | None:
    """Reads how the weights in a folder are quantized; None where they are not.

    Raises:
        CheckpointError: they are quantized in a way that is not supported.
    """
    if (folder / modelopt.FILE).exists():
        return modelopt.read_modelopt(read_json(folder / modelopt.FILE).get("quantization"))
    raw = read_json(folder / "config.json")
    found = hf_config.quantization_of(raw)
    if found is not None and found["quant_method"] == hf_config.MODELOPT:
        return modelopt.read_modelopt(found, modelopt.CONFIG)
    return read_quantization(raw)


def read_generation_defaults(
    folder: Path, config: ModelShape, usual: GenerationConfig | None = None
) -> GenerationConfig:
    """Reads a checkpoint's defaults, from `generation_config.json` and `gesso.json`, where there are any.

    Args:
        usual: what the family does where they say nothing; None for DiffusionGemma's defaults.

    Raises:
        CheckpointError: a file is no JSON object.
        ConfigError: an unknown key.
        OptionError: an impossible value.
    """
    published, own = (
        read_json(folder / name) if (folder / name).exists() else {}
        for name in (hf_generation_config.FILE, hf_generation_config.OWN_FILE)
    )
    defaults = hf_generation_config.read_generation_config(published, config, usual)
    return hf_generation_config.read_own_defaults(own, defaults)


@dataclass(frozen=True, slots=True)
class Outline:
    """Holds a model without storage, and what is known of its weights before they are read."""

    model: DiffusionGemma
    """The model in its dtype, with the layers that are stored packed in their places."""
    files: dict[str, Path]
    packed: set[str]
    """Names of tensors of packed layers."""
    apart: dict[str, modelopt.Packed]
    """Layers whose stored form is another program's."""
    dtype: torch.dtype


Make = Callable[[ModelConfig], DiffusionGemma]
"""Makes a model of a shape."""


def outline(
    folder: Path, target: torch.device, dtype: str, stored: Quantization | None, make: Make = DiffusionGemma
) -> Outline:
    """Makes the model of a checkpoint folder without storage, and reads no weight.

    Raises:
        CheckpointError, ConfigError, OptionError: as `load_folder`.
    """
    config = read_model_config(folder)
    with torch.device("meta"):
        model = make(config)
    files, packed, apart = weight_files(folder), set[str](), dict[str, modelopt.Packed]()
    foreign = stored is not None and isinstance(stored.experts, modelopt.FORMATS)
    only = modelopt.packed_layers(model, files) if foreign else None
    kind = pick_dtype(dtype, target, _whole_numbers(config, stored, only))
    model.to(kind)  # which a packed table reads its rows back to
    if stored is not None:
        packed = packed_names(model, replace_layers(model, stored, only))
    if foreign:
        apart = {name: module for name, module in model.named_modules() if isinstance(module, modelopt.Packed)}
    return Outline(model, files, packed, apart, kind)


def folder_dtype(folder: Path, device: str, dtype: str) -> str:
    """Resolves the name of a dtype, which must be one on every rank, and reads no weight.

    Raises:
        CheckpointError, ConfigError, OptionError: as `load_folder`.
    """
    found = outline(folder, pick_device(device), dtype, stored_quantization(folder)).dtype
    return next(name for name, kind in DTYPES.items() if kind == found)


def plan_folder_offload(folder: Path, device: str, dtype: str, device_memory: int, working: int) -> OffloadPlan | None:
    """Plans what of a checkpoint would lie on a device, and reads no weight; None where all of it would.

    Raises:
        OptionError, CheckpointError, ConfigError: as `load_folder`.
    """
    found = outline(folder, torch.device(device), dtype, stored_quantization(folder))
    return plan_offload(found.model, tower_bytes(found.files, found.dtype), device_memory, working)


def load_folder(
    folder: Path,
    device: str = "auto",
    dtype: str = "auto",
    quantize: Literal["nf4"] | None = None,
    offload: Offload | None = None,
    experts: range | None = None,
) -> DiffusionGemma:
    """Loads the text model of a checkpoint folder.

    Args:
        dtype: of whatever is not packed, and of the activations.
        quantize: hold linear layers and experts in 4 bits, made tensor by tensor while loading. Embeddings, norms and
            routers keep `dtype`.
        offload: stream experts from host memory where not all of them fit; None puts everything on the device.
        experts: those of every layer that are read, and that the model then has; None reads all.

    Raises:
        CheckpointError: missing, unknown, misshapen, truncated or non-finite weights, weights quantized by another
            program, or another model type.
        ConfigError: an unknown key or impossible value in `config.json`.
        OptionError: a device or dtype that does not exist here, a checkpoint to quantize that is quantized already, or
            too little memory for what cannot stream.
    """
    target = pick_device(device)
    pick_dtype(dtype, target)
    avoid_cudnn_attention(target)
    if target.type == "cpu":
        keep_freed_memory()
        use_performance_cores()
    stored = stored_quantization(folder)
    if stored is not None and quantize is not None:
        raise OptionError(f"{folder} is quantized already: {quantize} needs whole weights")
    found = outline(folder, target, dtype, stored)
    model = found.model
    plan = None if offload is None else _plan_and_tell(found, offload)
    streamed = () if plan is None else tuple(f"layers.{number}.experts" for number in plan.layers)
    on_host = tuple(f"{layer}." for layer in streamed)

    def place(name: str) -> torch.device:
        return torch.device("cpu") if name.startswith(on_host) else target

    wanted = model.state_dict()
    if experts is not None:
        if found.apart:
            raise OptionError(
                f"{folder} was quantized by ModelOpt, and is read whole: expert_parallel needs another checkpoint",
                option="expert_parallel",
            )
        keep_experts(model, len(experts))
    layers = {} if quantize is None else replace_layers(model, QLORA)
    loaded = read_tensors(folder, found, wanted, place, layers=layers, experts=experts)
    model.load_state_dict(loaded, strict=True, assign=True)
    model = model.eval().requires_grad_(False)
    if offload is not None and plan is not None:
        del loaded
        model.offload = plan
        LayerStream([model.get_submodule(layer) for layer in streamed], offload.store)
    return model


def _plan_and_tell(found: Outline, offload: Offload) -> OffloadPlan | None:
    """Plans what of a model streams from host memory, and tells the user; None where all of it fits its device."""
    tower = tower_bytes(found.files, found.dtype)
    plan = plan_offload(found.model, tower, offload.device_memory, offload.working, offload.needs_all)
    if plan is not None and offload.tell is not None:
        offload.tell(plan.sentence(offload.store.rate()))
    return plan


def _whole_numbers(config: ModelConfig, stored: Quantization | None, only: Container[str] | None) -> int:
    """Counts the numbers of a model that are not packed: those that are take the same memory in every dtype."""
    with torch.device("meta"):
        model = DiffusionGemma(config)
        if stored is not None:
            replace_layers(model, stored, only)
    return sum(parameter.numel() for parameter in model.parameters())


def packed_names(model: DiffusionGemma, layers: Mapping[str, Format]) -> set[str]:
    """Returns the names of the tensors that hold the packed weights of `layers`, which `replace_layers` has put in."""
    names = model.state_dict().keys()
    return {name for name in names if name.rpartition(".")[0] in layers and not name.endswith(".bias")}


def weight_files(folder: Path) -> dict[str, Path]:
    """Returns the file of each tensor, by Hugging Face name.

    Raises:
        CheckpointError: there are no weights, or the index names a file that is missing.
    """
    if (folder / INDEX).exists():
        files = {name: folder / Path(file).name for name, file in read_index(folder).items()}
        for path in sorted(set(files.values())):
            if not path.exists():
                raise CheckpointError(f"{path.name}, named by {INDEX}, is missing in {folder}")
        return files
    single = next((folder / name for name in (SINGLE, GGUF) if (folder / name).exists()), None)
    if single is None:
        raise CheckpointError(f"no {SINGLE} and no {INDEX} in {folder}: gesso reads safetensors and GGUF only")
    return dict.fromkeys(open_file(single).keys(), single)


def read_tensors(
    folder: Path,
    found: Outline,
    wanted: Mapping[str, Tensor],
    place: Callable[[str], torch.device],
    holds: Callable[[str], bool] = lambda name: True,
    layers: Mapping[str, Format] | None = None,
    experts: range | None = None,
) -> dict[str, Tensor]:
    """Reads the tensors of a model, each to its device, and to its dtype where it is not packed.

    Args:
        wanted: all of the checkpoint, by name.
        holds: says which of them, and which of the layers (`name.`), are read.
        layers: that are packed while they are read.
        experts: those whose parts are read of tensors of all experts; None reads all.

    Raises:
        CheckpointError: see `load_folder`.
    """
    files, packed, loaded = found.files, found.packed, dict[str, Tensor]()
    wanted = {name: tensor for name, tensor in wanted.items() if not found.apart or name not in packed}
    for name, (hf_name, path) in sources(folder, files, wanted, modelopt.stored_names(found.apart, files)).items():
        if not holds(name):
            continue
        with open_checked(hf_name, path, wanted[name], name in packed, str(place(name))) as file:
            if experts is None or not is_of_experts(name):
                tensor = file.get_tensor(hf_name)
            else:
                tensor = file.get_slice(hf_name)[experts.start : experts.stop]
            if name in packed:
                check_finite(hf_name, tensor)
            else:
                tensor = cast_finite(hf_name, tensor, found.dtype)
        form = (layers or {}).get(name.rpartition(".")[0])
        loaded |= {name: tensor} if form is None else quantized_tensors(name, tensor, form)
    check_copies(files, {to_hf(name) for name in wanted if holds(name)}, found.dtype)
    apart = {name: module for name, module in found.apart.items() if holds(f"{name}.")}
    loaded |= modelopt.layer_tensors(files, apart, place)
    return loaded
