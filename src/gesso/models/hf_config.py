"""Reads and writes Hugging Face's `config.json`.

A key that is not known is refused by name: it may change what the model computes. Two ways of writing the full
layers' attention shape exist (`global_head_dim` and `num_global_key_value_heads`, or `per_layer_config`); both are
read, the second, which newer releases write, is written.
"""

from collections.abc import Mapping
from typing import Any

from gesso.config import MAX_LAYERS, AttentionKind, LayerConfig, ModelConfig, RopeConfig
from gesso.errors import CheckpointError, ConfigError
from gesso.models.hf_config_keys import FIXED, GENERIC, ROPE_KEYS, TEXT_KEYS, TOP_KEYS
from gesso.models.sdar import config as sdar

MODEL_TYPE = "diffusion_gemma"
QUANT_METHOD, MODELOPT = "gesso", "modelopt"
CALIBRATION = "calibration"
"""Key of `quantization_config`: the prompts that scales were found with, folded into the weights."""


def _refuse_unknown(section: str, raw: Mapping[str, Any], known: set[str]) -> None:
    for key, value in raw.items():
        if key in FIXED:
            if value not in FIXED[key]:
                raise ConfigError(f"{section}: {key} = {value!r} is not supported")
        elif key not in known and key not in GENERIC:
            raise ConfigError(f"{section}: unknown key {key!r} may change the model; it is not supported")


def _need(raw: Mapping[str, Any], key: str) -> Any:
    if raw.get(key) is None:
        raise ConfigError(f"config.json: text_config.{key} is missing")
    return raw[key]


def quantization_of(raw: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Returns the `quantization_config`, or None where the weights are not quantized.

    Raises:
        CheckpointError: neither gesso nor modelopt quantized them.
    """
    found = raw.get("quantization_config")
    if found is None:
        return None
    method = found.get("quant_method", "unknown") if isinstance(found, Mapping) else found
    if not isinstance(found, Mapping) or method not in (QUANT_METHOD, MODELOPT):
        raise CheckpointError(f"config.json: quantized with {method!r}, which gesso cannot read yet")
    return found


def calibration_of(raw: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Returns what a `config.json` says of its calibration: how many `prompts` and `tokens`, and the `id` of the
    scales; None where there was none.

    Raises:
        CheckpointError: it is not understood.
    """
    found = (quantization_of(raw) or {}).get(CALIBRATION)
    if found is None:
        return None
    if not isinstance(found, Mapping) or found.keys() != {"prompts", "tokens", "id"} or not found["id"]:
        raise CheckpointError(f"config.json: quantization_config.{CALIBRATION} {found!r} is not understood")
    return found


def read_config(raw: Mapping[str, Any]) -> ModelConfig:
    """Makes a `ModelConfig` from the content of `config.json`.

    Raises:
        CheckpointError: another model type, or a quantization we cannot read.
        ConfigError: an unknown key, or a value that is missing or not supported.
    """
    found = raw.get("model_type")
    if found == sdar.MODEL_TYPE:
        raise CheckpointError(
            f"config.json: a model of the family {found} is run and served; this works with {MODEL_TYPE} alone"
        )
    if found != MODEL_TYPE:
        raise CheckpointError(f"config.json: model_type is {found!r}; gesso reads {MODEL_TYPE!r}")
    quantization_of(raw)
    _refuse_unknown("config.json", raw, TOP_KEYS)
    text = raw.get("text_config")
    if not isinstance(text, Mapping):
        raise ConfigError("config.json: text_config is missing")
    _refuse_unknown("config.json: text_config", text, TEXT_KEYS)
    ropes = text.get("rope_parameters")
    if ropes is None:
        ropes = {
            "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
            "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1_000_000.0},
        }
    _refuse_unknown_kinds(ropes)
    vision = raw.get("vision_config")
    if vision is not None and not isinstance(vision, Mapping):
        raise ConfigError(f"config.json: vision_config is no object: {vision!r}")
    image_tokens = (raw.get(key) for key in ("boi_token_id", "image_token_id", "eoi_token_id"))
    return ModelConfig(
        vocab_size=_need(text, "vocab_size"),
        hidden_size=_need(text, "hidden_size"),
        intermediate_size=_need(text, "intermediate_size"),
        num_attention_heads=_need(text, "num_attention_heads"),
        layers=_layers(text),
        num_experts=_need(text, "num_experts"),
        top_k_experts=_need(text, "top_k_experts"),
        moe_intermediate_size=_need(text, "moe_intermediate_size"),
        sliding_window=text.get("sliding_window", 512),
        sliding_rope=_rope(ropes, "sliding_attention"),
        full_rope=_rope(ropes, "full_attention"),
        canvas_length=256 if raw.get("canvas_length") is None else raw["canvas_length"],
        max_position_embeddings=text.get("max_position_embeddings", 131_072),
        final_logit_softcapping=_number(text, "final_logit_softcapping", 30.0),
        rms_norm_eps=_number(text, "rms_norm_eps", 1e-6),
        attention_bias=text.get("attention_bias", False),
        pad_token_id=_first(text.get("pad_token_id"), 0),
        eos_token_id=_first(text.get("eos_token_id"), 1),
        bos_token_id=_first(text.get("bos_token_id"), 2),
        image_token_ids=tuple(token for token in image_tokens if token is not None),
        vision_config=vision,
        image_budget=280 if (budget := raw.get("vision_soft_tokens_per_image")) is None else budget,
        calibration="" if (calibration := calibration_of(raw)) is None else str(calibration["id"]),
    )


def _first(value: Any, default: int) -> Any:
    if isinstance(value, list):
        value = value[0] if value else None
    return default if value is None else value


def _number(raw: Mapping[str, Any], key: str, default: float) -> float:
    value = raw.get(key, default)
    if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) < float("inf"):
        raise ConfigError(f"config.json: {key} must be a number, got {value!r}")
    return float(value)


def _kinds(text: Mapping[str, Any]) -> list[AttentionKind]:
    """Returns the kind of each layer: as `layer_types` says, or else every sixth and the last one full."""
    count = _need(text, "num_hidden_layers")
    kinds = text.get("layer_types")
    if not isinstance(count, int) or isinstance(count, bool) or not isinstance(kinds, list | None):
        raise ConfigError(f"config.json: num_hidden_layers {count!r} and layer_types {kinds!r} are no number and list")
    if not 1 <= count <= MAX_LAYERS:
        raise ConfigError(f"config.json: num_hidden_layers must be from 1 to {MAX_LAYERS:,}, got {count:,}")
    if kinds is None:
        kinds = ["full_attention" if (i + 1) % 6 == 0 or i + 1 == count else "sliding_attention" for i in range(count)]
    if len(kinds) != count:
        raise ConfigError(f"config.json: {len(kinds)} layer_types for num_hidden_layers {count}")
    for kind in kinds:
        if kind not in ("sliding_attention", "full_attention"):
            raise ConfigError(f"config.json: layer_types has {kind!r}; known: sliding_attention, full_attention")
    if kinds[-1] != "full_attention":
        raise ConfigError("config.json: the last of layer_types must be full_attention")
    return kinds


def _layers(text: Mapping[str, Any]) -> tuple[LayerConfig, ...]:
    kinds = _kinds(text)
    own = _per_layer(text, len(kinds))
    sliding = {"head_dim": text.get("head_dim", 256), "num_key_value_heads": text.get("num_key_value_heads", 4)}
    full = {
        "head_dim": text.get("global_head_dim") or 512,
        "num_key_value_heads": text.get("num_global_key_value_heads") or sliding["num_key_value_heads"],
    }
    layers = []
    for i, kind in enumerate(kinds):
        shape = dict(sliding if kind == "sliding_attention" or own is not None else full)
        shape |= (own or {}).get(str(i), {})
        for key, name in (("head_dim", "global_head_dim"), ("num_key_value_heads", "num_global_key_value_heads")):
            if kind == "full_attention" and text.get(name) not in (None, shape[key]):
                raise ConfigError(f"config.json: {name} {text[name]} contradicts per_layer_config[{i}]")
        layers.append(LayerConfig(kind, **shape))
    for kind in ("sliding_attention", "full_attention"):
        dims = [layer.head_dim for layer in layers if layer.kind == kind]
        if any(dim != dims[0] for dim in dims):
            raise ConfigError(f"config.json: {kind} layers differ in head_dim ({dims}): not supported")
    return tuple(layers)


def _per_layer(text: Mapping[str, Any], count: int) -> Mapping[str, Mapping[str, Any]] | None:
    own = text.get("per_layer_config")
    if own is None:
        return None
    if not isinstance(own, Mapping) or not all(isinstance(entry, Mapping) for entry in own.values()):
        raise ConfigError("config.json: per_layer_config must map layer numbers to settings")
    # Some writers pad the numbers with zeros to the width of the longest.
    own = {number.lstrip("0") or "0": entry for number, entry in own.items()}
    for number, entry in own.items():
        if number not in map(str, range(count)):
            raise ConfigError(f"config.json: per_layer_config: {number!r} is none of the {count} layers")
        for key in entry:
            if key not in ("head_dim", "num_key_value_heads"):
                raise ConfigError(f"config.json: per_layer_config[{number}]: unknown key {key!r}")
    return own


def _refuse_unknown_kinds(ropes: Any) -> None:
    if not isinstance(ropes, Mapping):
        raise ConfigError("config.json: rope_parameters must map kinds of layers to settings")
    for kind in ropes:
        if kind not in ("sliding_attention", "full_attention"):
            raise ConfigError(f"config.json: rope_parameters: unknown key {kind!r}")


def _rope(ropes: Mapping[str, Any], kind: str) -> RopeConfig:
    raw = ropes.get(kind)
    if not isinstance(raw, Mapping):
        raise ConfigError(f"config.json: rope_parameters has no {kind}")
    for key in raw:
        if key not in ROPE_KEYS:
            raise ConfigError(f"config.json: rope_parameters.{kind}: unknown key {key!r}")
    rope_type = raw.get("rope_type", "default")
    fraction, factor = _number(raw, "partial_rotary_factor", 1.0), _number(raw, "factor", 1.0)
    if rope_type not in ("default", "proportional"):
        raise ConfigError(f"config.json: rope_parameters.{kind}: rope_type {rope_type!r} is not supported")
    if rope_type == "default" and (fraction != 1.0 or factor != 1.0):
        raise ConfigError(f"config.json: rope_parameters.{kind}: the default type turns the whole head, unscaled")
    return RopeConfig(rope_type, _number(raw, "rope_theta", 10_000.0), fraction, factor)


def write_config(config: ModelConfig, dtype: str) -> dict[str, Any]:
    """Returns the content of a `config.json` that `transformers` and `read_config` read back."""
    image = dict(zip(("boi_token_id", "image_token_id", "eoi_token_id"), config.image_token_ids, strict=False))
    sliding = next((layer for layer in config.layers if layer.is_sliding), config.layers[0])
    ropes: dict[str, dict[str, Any]] = {}
    for kind, rope in (("sliding_attention", config.sliding_rope), ("full_attention", config.full_rope)):
        ropes[kind] = {"rope_type": rope.rope_type, "rope_theta": rope.rope_theta}
        if rope.rope_type == "proportional":
            ropes[kind] |= {"partial_rotary_factor": rope.partial_rotary_factor}
        if rope.factor != 1.0:
            ropes[kind] |= {"factor": rope.factor}
    text = {
        "model_type": "diffusion_gemma_text",
        "attention_bias": config.attention_bias,
        "attention_dropout": 0.0,
        "bos_token_id": config.bos_token_id,
        "eos_token_id": config.eos_token_id,
        "final_logit_softcapping": config.final_logit_softcapping,
        "head_dim": sliding.head_dim,
        "hidden_activation": "gelu_pytorch_tanh",
        "hidden_size": config.hidden_size,
        "initializer_range": config.initializer_range,
        "intermediate_size": config.intermediate_size,
        "layer_types": [layer.kind for layer in config.layers],
        "max_position_embeddings": config.max_position_embeddings,
        "moe_intermediate_size": config.moe_intermediate_size,
        "num_attention_heads": config.num_attention_heads,
        "num_experts": config.num_experts,
        "num_hidden_layers": len(config.layers),
        "num_key_value_heads": sliding.num_key_value_heads,
        "pad_token_id": config.pad_token_id,
        "per_layer_config": {
            str(i): {"head_dim": layer.head_dim, "num_key_value_heads": layer.num_key_value_heads}
            for i, layer in enumerate(config.layers)
            if layer != sliding
        },
        "rms_norm_eps": config.rms_norm_eps,
        "rope_parameters": ropes,
        "sliding_window": config.sliding_window,
        "tie_word_embeddings": True,
        "top_k_experts": config.top_k_experts,
        "use_bidirectional_attention": "vision",
        "vocab_size": config.vocab_size,
    }
    return {
        "architectures": ["DiffusionGemmaForBlockDiffusion"],
        "model_type": MODEL_TYPE,
        "canvas_length": config.canvas_length,
        "dtype": dtype,
        "tie_word_embeddings": True,
        **image,
        "text_config": text,
        **_written_vision(config),
    }


def _written_vision(config: ModelConfig) -> dict[str, Any]:
    if config.vision_config is None:
        return {}
    return {"vision_config": dict(config.vision_config), "vision_soft_tokens_per_image": config.image_budget}
