"""Hugging Face's `generation_config.json` and our `gesso.json`, both ways. Unknown keys are refused by name."""

from collections.abc import Mapping
from typing import Any

from gesso.config import ModelConfig
from gesso.errors import ConfigError
from gesso.generation import GenerationConfig

_GENERATION_KEYS = {
    "max_new_tokens",
    "max_denoising_steps",
    "t_min",
    "t_max",
    "stability_threshold",
    "confidence_threshold",
    "pad_token_id",
}
_GENERATION_IGNORED = {
    "_from_model_config",
    "bos_token_id",
    "cache_config",
    "cache_implementation",
    "disable_compile",
    "do_sample",
    "max_length",
    "return_dict_in_generate",
    "temperature",
    "top_k",
    "top_p",
    "transformers_version",
}
"""Keys of the reference's caches and of left-to-right sampling, which have no meaning for a canvas."""

OWN_KEYS = ("verify",)
"""Settings that a checkpoint may have in `gesso.json`."""


def read_generation_config(raw: Mapping[str, Any], config: ModelConfig) -> GenerationConfig:
    """Defaults of a checkpoint; what it leaves out or sets to null is the published default."""
    changes: dict[str, Any] = {"pad_token_id": config.pad_token_id, "eos_token_ids": (config.eos_token_id,)}
    for key, value in raw.items():
        if key in _GENERATION_IGNORED or value is None:
            continue
        if key == "sampler_config":
            if not isinstance(value, Mapping):
                raise ConfigError(f"generation_config.json: sampler_config is no object: {value!r}")
            if value.get("_cls_name", "EntropyBoundSamplerConfig") != "EntropyBoundSamplerConfig":
                raise ConfigError(f"generation_config.json: unknown sampler {value['_cls_name']!r}")
            for name in value:
                if name not in ("_cls_name", "entropy_bound"):
                    raise ConfigError(f"generation_config.json: sampler_config: unknown key {name!r}")
            changes["entropy_bound"] = value.get("entropy_bound", 0.1)
        elif key == "eos_token_id":
            changes["eos_token_ids"] = tuple(value) if isinstance(value, list) else (value,)
        elif key in _GENERATION_KEYS:
            changes[key] = value
        else:
            raise ConfigError(f"generation_config.json: unknown key {key!r}")
    return GenerationConfig().override(**changes)


def read_own_defaults(raw: Mapping[str, Any], generation: GenerationConfig) -> GenerationConfig:
    """The defaults with those of `gesso.json`, which holds what the reference has no name for and would refuse."""
    if unknown := sorted(set(raw) - set(OWN_KEYS)):
        raise ConfigError(f"gesso.json: unknown key {unknown[0]!r}")
    return generation.override(**raw)


def write_own_defaults(generation: GenerationConfig) -> dict[str, Any]:
    """The content of a `gesso.json`; empty where there is nothing to say."""
    usual = GenerationConfig()
    return {key: getattr(generation, key) for key in OWN_KEYS if getattr(generation, key) != getattr(usual, key)}


def write_generation_config(generation: GenerationConfig, config: ModelConfig) -> dict[str, Any]:
    """The content of a `generation_config.json`."""
    return {
        "max_new_tokens": generation.max_new_tokens,
        "max_denoising_steps": generation.max_denoising_steps,
        "sampler_config": {"_cls_name": "EntropyBoundSamplerConfig", "entropy_bound": generation.entropy_bound},
        "t_min": generation.t_min,
        "t_max": generation.t_max,
        "stability_threshold": generation.stability_threshold,
        "confidence_threshold": generation.confidence_threshold,
        "bos_token_id": config.bos_token_id,
        "pad_token_id": generation.pad_token_id,
        "eos_token_id": list(generation.eos_token_ids),
    }
