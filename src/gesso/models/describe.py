"""Describes a checkpoint in figures, from its config and file headers; no weight is read."""

from pathlib import Path
from typing import Any

import torch

from gesso.config import ModelConfig, ModelShape
from gesso.generation import STRATEGIES, GenerationConfig
from gesso.json_files import read_json
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.family import Family, family_of, read_defaults, read_shape
from gesso.models.gguf.file import read_as
from gesso.models.hf_config import calibration_of
from gesso.models.loading import GGUF, read_generation_defaults, read_model_config, stored_quantization
from gesso.models.quantization.plan import name_formats
from gesso.models.vision_config import read_vision_config
from gesso.models.vision_loading import has_vision
from gesso.models.vision_tower import VisionModel
from gesso.options import options_of


def parameters(config: ModelShape) -> tuple[int, int]:
    """Counts the parameters of the text model: all, and those that work on one token (its experts and no embedding rows
    but its own; the tied head counts)."""
    if not isinstance(config, ModelConfig):
        return config.weights(), config.weights()
    with torch.device("meta"):
        model = DiffusionGemma(config)
    total = sum(p.numel() for p in model.parameters())
    expert = 3 * config.hidden_size * config.moe_intermediate_size
    idle = len(config.layers) * (config.num_experts - config.top_k_experts) * expert
    return total, total - idle


def vision_parameters(folder: Path, config: ModelShape) -> int:
    """Counts the parameters of a checkpoint's tower and projector; none where it holds none."""
    if not isinstance(config, ModelConfig) or not has_vision(folder):
        return 0
    with torch.device("meta"):
        vision = VisionModel(read_vision_config(config.vision_config or {}), config.hidden_size)
    return sum(p.numel() for p in vision.parameters())


def folder_bytes(folder: Path) -> int:
    """Counts the bytes of the weights in a folder."""
    return sum(path.stat().st_size for path in (*folder.glob("*.safetensors"), *folder.glob(GGUF)))


def _vision(folder: Path, config: ModelConfig) -> str:
    if not has_vision(folder):
        return "described, without weights: text only" if config.vision_config else "none"
    tower = read_vision_config(config.vision_config or {})
    return f"{tower.num_hidden_layers} layers, {tower.hidden_size} wide"


def _quantization(folder: Path) -> str:
    """Names the formats of weights, and says whether scales were found from activations."""
    stored = stored_quantization(folder)
    if stored is None:
        return read_as(folder / GGUF) if (folder / GGUF).exists() else "no"
    calibrated = calibration_of(read_json(folder / "config.json"))
    told = "" if calibrated is None else f"; calibrated on {calibrated['prompts']} prompts"
    return name_formats(stored) + told


def describe(folder: Path) -> dict[str, Any]:
    """Returns what `gesso models show` prints."""
    if (family := family_of(folder)) is not None:
        return _describe_family(folder, family)
    config = read_model_config(folder)
    defaults = read_generation_defaults(folder, config)
    total, active = parameters(config)
    seeing = vision_parameters(folder, config)
    sliding = sum(layer.is_sliding for layer in config.layers)
    return {
        "folder": str(folder),
        "weights_bytes": folder_bytes(folder),
        "parameters": total,
        "active_parameters": active,
        "vision_parameters": seeing,
        "layers": f"{len(config.layers)} ({sliding} sliding, {len(config.layers) - sliding} full)",
        "hidden_size": config.hidden_size,
        "attention_heads": config.num_attention_heads,
        "experts": f"{config.num_experts}, {config.top_k_experts} a token, {config.moe_intermediate_size} wide",
        "vocab_size": config.vocab_size,
        "sliding_window": config.sliding_window,
        "context": config.max_position_embeddings,
        "canvas_length": config.canvas_length,
        "max_denoising_steps": defaults.max_denoising_steps,
        **_strategies(defaults),
        "bf16_bytes": 2 * (total + seeing),
        "quantized": _quantization(folder),
        "vision": _vision(folder, config),
    }


def _describe_family(folder: Path, family: Family) -> dict[str, Any]:
    """Describes a checkpoint of another family; what follows from its shape is the family's to say."""
    shape = read_shape(folder)
    defaults, total = read_defaults(folder, shape), shape.weights()
    return {
        "folder": str(folder),
        "family": shape.family,
        "weights_bytes": folder_bytes(folder),
        "parameters": total,
        "active_parameters": total,
        **family.facts(shape),
        "max_denoising_steps": defaults.max_denoising_steps,
        **_strategies(defaults),
        "bf16_bytes": 2 * total,
        "vision": "none",
    }


def _strategies(defaults: GenerationConfig) -> dict[str, Any]:
    """Returns the sampler, the schedule and the stopping rule with their options, and when a canvas starts again."""
    facts: dict[str, Any] = {} if defaults.restart_steps is None else {"restart_steps": defaults.restart_steps}
    for role in STRATEGIES:
        chosen = getattr(defaults, f"{role}_options")
        facts |= {role: getattr(defaults, role)} | {name: getattr(chosen, name) for name in options_of(type(chosen))}
    if {"t_min", "t_max"} <= facts.keys():
        facts["temperatures"] = f"{facts['t_max']} to {facts['t_min']}"
    return facts
