"""Reads and writes adapters in PEFT's format.

The reference holds encoder and decoder as two modules on the same weights, and PEFT gives each a delta of its own.
gesso has one stack and trains one delta: it writes the delta under both names, so that PEFT's model computes what ours
does. (PEFT's own `merge_and_unload` would add it twice: once for each name.) Where a file's two deltas differ, or it
has one of them alone, as PEFT and those who train with it write them, each is kept for its own passes (`separate`).
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from gesso.config import LoraConfig, ModelConfig
from gesso.errors import CheckpointError, OptionError
from gesso.json_files import read_json
from gesso.models import base_weights
from gesso.models.adapters import adapted_layers, check_scales, targets, wrap
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.peft_layout import PREFIX, fill, stacks_of, to_peft
from gesso.models.run_folders import ADAPTER_CONFIG, ADAPTER_WEIGHTS, instead_of_adapter
from gesso.models.saving import write_json, write_tensors
from gesso.models.staging import staged
from gesso.models.state_dict_adapter import to_hf_module
from gesso.models.tensors import FLOATS, cast_finite
from gesso.nn.lora import LoraLinear

CALIBRATION = "gesso_calibration"
"""Setting of adapters for calibrated weights: `ModelConfig.calibration` of those."""
_NEUTRAL: dict[str, tuple[object, ...]] = {
    "bias": ("none", None),
    "use_dora": (False, None),
    "fan_in_fan_out": (False, None),
    "lora_bias": (False, None),
    "modules_to_save": (None, []),
    "trainable_token_indices": (None, [], {}),
    "rank_pattern": ({}, None),
    "alpha_pattern": ({}, None),
    "layer_replication": (None,),
    "alora_invocation_tokens": (None,),
    "use_qalora": (False, None),
    "exclude_modules": (None, []),
    "use_rslora": (False, True, None),
    "init_lora_weights": (True, False, None, "gaussian", "eva", "orthogonal", "mica"),
} | dict.fromkeys(("use_bdlora", "arrow_config", "kasa_config", "monteclora_config", "velora_config"), (None, False))
"""Settings of PEFT that change what an adapter computes, with the values that gesso computes."""
_HINTS = {
    "init_lora_weights": "such a start changes the base weights: write the adapter with PEFT's "
    "save_pretrained(path_initial_model_for_weight_conversion=...)"
}


def save_adapter(
    model: DiffusionGemma,
    config: LoraConfig,
    folder: Path,
    base: str,
    gather: Callable[[Tensor], Tensor] = torch.Tensor.detach,
    writes: bool = True,
    numbers: base_weights.Numbers | None = None,
) -> None:
    """Writes the adapter as PEFT does; `base` is the name or folder of the base model, for the reader's information.

    Args:
        numbers: of the base's weights (`base_weights.numbers_of`), by which another base is noticed later.
        gather: as in `save_folder`: makes a full tensor of a sharded one; one process `writes`.
    """
    tensors: dict[str, Tensor] = {}
    modules: list[str] = []
    parameters: list[str] = []
    for name, layer in adapted_layers(model):
        for stack in stacks_of(to_hf_module(name)):
            if isinstance(layer, LoraLinear):
                modules.append(stack)
            else:
                parameters += [f"{stack}.gate_up_proj", f"{stack}.down_proj"]
            tensors |= {PREFIX + key: value.cpu().clone() for key, value in to_peft(stack, layer, gather)}
    if not writes:
        return
    settings = {
        "peft_type": "LORA",
        "task_type": None,
        "base_model_name_or_path": base,
        "inference_mode": True,
        "r": config.rank,
        "lora_alpha": config.alpha,
        # PEFT knows no dropout on fused experts, and an adapter that is done needs none.
        "lora_dropout": 0.0 if parameters else config.dropout,
        "use_rslora": config.rank_stabilised,
        "bias": "none",
        "fan_in_fan_out": False,
        "init_lora_weights": True,
        "target_modules": modules,
        "target_parameters": parameters or None,
    } | ({CALIBRATION: model.config.calibration} if model.config.calibration else {})
    with staged(folder) as partial:
        write_tensors(partial / ADAPTER_WEIGHTS, tensors, base_weights.describe(numbers or {}))
        write_json(partial / ADAPTER_CONFIG, settings)


def base_of(folder: Path) -> str:
    """Returns the name of the model that the adapter in `folder` was trained on, as its training was told it; empty
    where the file does not say."""
    path = folder / ADAPTER_CONFIG
    name = read_json(path).get("base_model_name_or_path") if path.exists() else None
    return name if isinstance(name, str) else ""


def read_adapter_config(folder: Path) -> LoraConfig:
    """Reads the settings of an adapter in PEFT's format; its targets are told by the weights themselves.

    Raises:
        CheckpointError: it is no LoRA adapter, or one with a setting that gesso does not compute.
    """
    if not (folder / ADAPTER_CONFIG).exists():
        raise CheckpointError(
            f"no {ADAPTER_CONFIG} in {folder}: an adapter is a folder with {ADAPTER_CONFIG} and {ADAPTER_WEIGHTS}",
            hint=instead_of_adapter(folder),
        )
    settings = read_json(folder / ADAPTER_CONFIG)
    if settings.get("peft_type") != "LORA":
        raise CheckpointError(f"{folder / ADAPTER_CONFIG}: peft_type {settings.get('peft_type')!r} is not LORA")
    for name, neutral in _NEUTRAL.items():
        if name in settings and settings[name] not in neutral:
            raise CheckpointError(
                f"{folder / ADAPTER_CONFIG}: {name} = {settings[name]!r} is not supported", hint=_HINTS.get(name)
            )
    settings["lora_dropout"] = settings.get("lora_dropout") or 0.0
    for name in ("r", "lora_alpha", "lora_dropout"):
        if not isinstance(settings.get(name), int | float) or isinstance(settings[name], bool):
            raise CheckpointError(f"{folder / ADAPTER_CONFIG}: {name} is missing or no number")
    try:
        return LoraConfig(
            rank=settings["r"],
            alpha=settings["lora_alpha"],
            dropout=settings["lora_dropout"],
            rank_stabilised=bool(settings.get("use_rslora")),
        )
    except OptionError as error:
        raise CheckpointError(f"{folder / ADAPTER_CONFIG}: {error}") from None


@torch.no_grad()
def load_adapter(
    model: DiffusionGemma, folder: Path, layout: Callable[[Tensor, Tensor], Tensor] = lambda full, _: full
) -> LoraConfig:
    """Puts the adapter in `folder` on the model, frozen, and returns its settings with the layers it names.

    Args:
        layout: makes of a full tensor what its parameter (second argument) takes.

    Raises:
        CheckpointError: the file is damaged, or does not fit this model.
    """
    config = read_adapter_config(folder)
    check_scales(read_json(folder / ADAPTER_CONFIG).get(CALIBRATION, ""), model.config, folder)
    tensors = _read_tensors(folder)
    layers = {to_hf_module(name): name for name in targets(model, LoraConfig(targets=("*",)))}
    found = [name for module, name in layers.items() if any(_of_module(tensors, stack) for stack in stacks_of(module))]
    if not found:
        raise CheckpointError(
            f"{folder / ADAPTER_WEIGHTS} has no delta for any layer of this model{_trained_on(folder)}"
        )
    _check_rank(config, tensors, folder)
    config = replace(config, targets=tuple(found), separate=any(_differs(tensors, to_hf_module(n)) for n in found))
    for name in found:
        wrap(model, name, config)
    model.requires_grad_(False)
    try:
        fill(model, tensors, folder / ADAPTER_WEIGHTS, layout)
    except CheckpointError as error:
        raise CheckpointError(f"{error}{_trained_on(folder)}") from None
    return config


def _trained_on(folder: Path) -> str:
    """Says which model the adapter is of, for who gave another one."""
    base = base_of(folder)
    return f"; {folder} was trained on {base}" if base else ""


def _check_rank(config: LoraConfig, tensors: dict[str, Tensor], folder: Path) -> None:
    """Refuses a rank that no matrix of the file has room for, before matrices of that size are made."""
    widest = max((size for tensor in tensors.values() for size in tensor.shape), default=0)
    if config.rank > widest:
        raise CheckpointError(
            f"{folder / ADAPTER_CONFIG}: r is {config.rank}, and no matrix has more than {widest} rows"
        )


def adapter_config_of(model: ModelConfig, folder: Path) -> LoraConfig:
    """Returns the settings of the adapter in `folder` with the layers it names, and whether its deltas are separate.

    Raises:
        CheckpointError: as `load_adapter`.
    """
    with torch.device("meta"):
        whole = DiffusionGemma(model)
    return load_adapter(whole, folder)


def unlike_layer(model: DiffusionGemma, folder: Path) -> str | None:
    """Returns the name of a layer that has a delta in the model or in the adapter in `folder`, and not in both; None
    where there is none.

    Raises:
        CheckpointError: the file is damaged.
    """
    rest = _read_tensors(folder)
    for name, _ in adapted_layers(model):
        own = [f"{PREFIX}{stack}.{key}" for stack in stacks_of(to_hf_module(name)) for key in _of_module(rest, stack)]
        if not own:
            return name
        for key in own:
            del rest[key]
    return min(rest).removeprefix(PREFIX).partition(".lora_")[0] if rest else None


def _differs(tensors: dict[str, Tensor], module: str) -> bool:
    """Says whether a file's deltas of a layer differ between encoder and decoder, or one of the two has none."""
    parts = [_of_module(tensors, stack) for stack in stacks_of(module)]
    if len(parts) == 1:
        return False
    decoder, encoder = parts
    if not decoder or not encoder:
        return True
    # Where names differ the file is damaged, which is said when it is read.
    return decoder.keys() == encoder.keys() and not all(torch.equal(decoder[key], encoder[key]) for key in decoder)


def _of_module(tensors: dict[str, Tensor], stack: str) -> dict[str, Tensor]:
    prefix = f"{PREFIX}{stack}."
    return {key.removeprefix(prefix): tensor for key, tensor in tensors.items() if key.startswith(prefix)}


@torch.no_grad()
def load_adapter_weights(model: DiffusionGemma, folder: Path, layout: Callable[[Tensor, Tensor], Tensor]) -> None:
    """Loads the adapter in `folder` into the deltas that the model has already, which stay trainable.

    Args:
        layout: shards a full tensor as the parameter (second argument) is.

    Raises:
        CheckpointError: as `load_adapter`.
    """
    fill(model, _read_tensors(folder), folder / ADAPTER_WEIGHTS, layout)


def _read_tensors(folder: Path) -> dict[str, Tensor]:
    try:
        tensors: dict[str, Tensor] = load_file(folder / ADAPTER_WEIGHTS)
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{folder / ADAPTER_WEIGHTS} cannot be read: {error}") from None
    return {name: _whole(f"{folder / ADAPTER_WEIGHTS}: {name}", tensor) for name, tensor in tensors.items()}


def _whole(name: str, tensor: Tensor) -> Tensor:
    """Returns a tensor of a file in fp32.

    Raises:
        CheckpointError: it is of no type that deltas are stored in, or a number is not finite.
    """
    if tensor.dtype not in FLOATS.values():
        kind = str(tensor.dtype).removeprefix("torch.")
        raise CheckpointError(f"{name} is {kind}: deltas are float32, float16, bfloat16 or float64")
    return cast_finite(name, tensor, torch.float32)
