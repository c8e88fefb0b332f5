"""Reads and writes Hugging Face's `generation_config.json` and our `gesso.json`, from the table of options.

Keys are the options' names, with three exceptions of the reference: the sampler stands under `sampler_config`, as a
class name such as `EntropyBoundSamplerConfig` beside its options; end tokens are `eos_token_id`, one or several; and
`bos_token_id` is the tokenizer's. `gesso.json` holds what the reference has no name for and would refuse. Unknown
keys are refused by name.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from gesso.config import ModelConfig, ModelShape
from gesso.errors import ConfigError
from gesso.generation import STRATEGIES, GenerationConfig, generation_options
from gesso.options import Registry, options_of

FILE, OWN_FILE = "generation_config.json", "gesso.json"
_IGNORED = {
    "_from_model_config",
    "bos_token_id",
    "cache_config",
    "cache_implementation",
    "disable_compile",
    "do_sample",
    "max_length",
    "min_new_tokens",
    "min_p",
    "repetition_penalty",
    "return_dict_in_generate",
    "temperature",
    "top_k",
    "top_p",
    "transformers_version",
}
"""Keys of the reference's caches and of left-to-right sampling, which have no meaning for a canvas."""
_CLASS = "_cls_name"
_NESTED = ("sampler",)
"""Strategies that the reference keeps in an object of their own."""
_RENAMED = {"eos_token_ids": "eos_token_id"}


def read_generation_config(
    raw: Mapping[str, Any], config: ModelShape, usual: GenerationConfig | None = None
) -> GenerationConfig:
    """Reads the defaults of a checkpoint; what it leaves out or sets to null is the published default.

    Args:
        usual: the published defaults of its family; None for those of DiffusionGemma.

    Raises:
        ConfigError: an unknown key, sampler, or key of a sampler.
        OptionError: an impossible value.
    """
    changes: dict[str, Any] = {"pad_token_id": config.pad_token_id, "eos_token_ids": (config.eos_token_id,)}
    flat = _flat_options()
    for key, value in raw.items():
        if key in _IGNORED or value is None:
            continue
        if key.removesuffix("_config") in _NESTED:
            changes |= _read_strategy(key, value)
        elif key == _RENAMED["eos_token_ids"]:
            changes["eos_token_ids"] = tuple(value) if isinstance(value, list) else (value,)
        elif key in flat:
            changes[key] = value
        else:
            raise ConfigError(f"{FILE}: unknown key {key!r}")
    return (usual or GenerationConfig()).override(**changes)


def _read_strategy(key: str, value: Any) -> dict[str, Any]:
    """Returns the name and the options of the strategy that stands under `key`."""
    role = key.removesuffix("_config")
    registry = STRATEGIES[role]
    if not isinstance(value, Mapping):
        raise ConfigError(f"{FILE}: {key} is no object: {value!r}")
    classes = {_class_name(role, name): name for name in registry.names}
    written = value.get(_CLASS, _class_name(role, registry.default))
    if not isinstance(written, str) or written not in classes:
        raise ConfigError(f"{FILE}: unknown {role} {written!r}")
    options = {name: option for name, option in value.items() if name != _CLASS}
    for name in options:
        if name not in options_of(registry.get(classes[written])):
            raise ConfigError(f"{FILE}: {key}: unknown key {name!r}")
    return {role: classes[written], f"{role}_options": options}


def _class_name(role: str, name: str) -> str:
    """Returns the name as the reference writes it, such as `EntropyBoundSamplerConfig`."""
    return "".join(word.capitalize() for word in (*name.split("_"), role)) + "Config"


def _flat_options() -> list[str]:
    """Returns the options that stand in `generation_config.json` by their own names."""
    nested = {*_NESTED, *(name for role in _NESTED for name in STRATEGIES[role].options())}
    rows = generation_options().items()
    return [name for name, row in rows if row.file == FILE and name not in nested and name not in _RENAMED]


def _own_keys() -> list[str]:
    return [name for name, row in generation_options().items() if row.file == OWN_FILE]


def read_own_defaults(raw: Mapping[str, Any], generation: GenerationConfig) -> GenerationConfig:
    """Returns the defaults overridden by those of `gesso.json`.

    Raises:
        ConfigError: an unknown key.
        OptionError: an impossible value.
    """
    known = {*_own_keys(), *_chosen_in_own(raw)}
    if unknown := sorted(set(raw) - known):
        raise ConfigError(f"{OWN_FILE}: unknown key {unknown[0]!r}")
    return generation.override(**raw)


def _chosen_in_own(raw: Mapping[str, Any]) -> list[str]:
    """Returns the options of a strategy that `gesso.json` chooses: they stand beside its name, for the reference knows
    neither."""
    roles = [role for role in _own_keys() if role in STRATEGIES and role in raw]
    return [name for role in roles for name in STRATEGIES[role].options()]


def write_own_defaults(generation: GenerationConfig) -> dict[str, Any]:
    """Returns the content of a `gesso.json`; empty where every option has its default."""
    usual = GenerationConfig()
    own = {key: getattr(generation, key) for key in _own_keys() if getattr(generation, key) != getattr(usual, key)}
    for role in [role for role in own if role in STRATEGIES]:
        own |= _values(getattr(generation, f"{role}_options"))
    return own


def write_generation_config(generation: GenerationConfig, config: ModelConfig) -> dict[str, Any]:
    """Returns the content of a `generation_config.json`."""
    written: dict[str, Any] = {"bos_token_id": config.bos_token_id, "eos_token_id": list(generation.eos_token_ids)}
    for name in _flat_options():
        role = _role_of(name)
        # A strategy that the reference does not know stands in gesso.json, its options with it.
        if role is None or (getattr(generation, role) == STRATEGIES[role].default and hasattr(generation, name)):
            written[name] = getattr(generation, name)
    for role in _NESTED:
        chosen = _class_name(role, getattr(generation, role))
        written[f"{role}_config"] = {_CLASS: chosen, **_values(getattr(generation, f"{role}_options"))}
    return written


def _role_of(name: str) -> str | None:
    found: list[tuple[str, Registry[Any]]] = [item for item in STRATEGIES.items() if name in item[1].options()]
    return found[0][0] if found else None


def _values(strategy: Any) -> dict[str, Any]:
    return {field.name: getattr(strategy, field.name) for field in dataclasses.fields(strategy)}
