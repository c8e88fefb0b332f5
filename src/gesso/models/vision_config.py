"""Reads and writes the `vision_config` of Hugging Face's `config.json`: the shape of a vision tower.

Nothing falls back on a default: the class defaults of `transformers` are those of another tower. A key that is not
known is refused by name.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gesso.errors import ConfigError
from gesso.models.hf_config_keys import GENERIC

MODEL_TYPE = "gemma4_vision"
ROPE_TYPES = ("axial", "default")
"""Two spellings of the same: published files have the second, `transformers` writes the first."""
_FIXED: dict[str, tuple[Any, ...]] = {
    "model_type": (MODEL_TYPE,),
    "hidden_activation": ("gelu_pytorch_tanh",),
    "attention_bias": (False, None),
    "attention_dropout": (0, 0.0, None),
}
"""Keys that may stand there only with a value that means what is computed."""
_UNUSED = {"max_position_embeddings", "global_head_dim", "default_output_length", "initializer_range", "layer_types"}
"""Keys that change nothing."""
_SIZES = (
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "patch_size",
    "pooling_kernel_size",
    "position_embedding_size",
)
_NEEDED = ("model_type", "hidden_activation", "rms_norm_eps", "standardize", "use_clipped_linears", *_SIZES)
_KNOWN = {*_SIZES, *_FIXED, *_UNUSED, "rms_norm_eps", "rope_parameters", "standardize", "use_clipped_linears"}


@dataclass(frozen=True, slots=True)
class VisionConfig:
    """Describes the shape of a vision tower. Sizes of a patch are in pixels, of the pooling in patches."""

    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    patch_size: int
    pooling_kernel_size: int
    position_embedding_size: int
    """Rows, and columns, of patches that have a position."""
    rms_norm_eps: float
    rope_theta: float
    standardize: bool
    """Whether soft tokens are shifted and scaled by what comes with the weights."""
    use_clipped_linears: bool
    """Whether every projection stands between clamps."""

    def __post_init__(self) -> None:
        for name in _SIZES:
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ConfigError(f"vision_config: {name} must be a positive integer, got {value!r}")
        for name in ("rms_norm_eps", "rope_theta"):
            value = getattr(self, name)
            if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < float("inf"):
                raise ConfigError(f"vision_config: {name} must be a positive number, got {value!r}")
        for name in ("standardize", "use_clipped_linears"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(f"vision_config: {name} must be true or false, got {getattr(self, name)!r}")
        if self.head_dim % 4:
            raise ConfigError(f"vision_config: head_dim must be a multiple of 4, got {self.head_dim}")
        if self.num_attention_heads % self.num_key_value_heads:
            raise ConfigError(
                f"vision_config: num_attention_heads {self.num_attention_heads} is no multiple of "
                f"num_key_value_heads {self.num_key_value_heads}"
            )

    @property
    def pixels(self) -> int:
        """Returns the numbers of one patch: three colours of each of its pixels."""
        return 3 * self.patch_size**2


def is_stub(raw: Mapping[str, Any]) -> bool:
    """Says whether too little is told for a tower, as in the checkpoints of models of texts alone: `transformers` wants
    one described all the same."""
    return any(key not in raw for key in _NEEDED)


def read_vision_config(raw: Mapping[str, Any]) -> VisionConfig:
    """Makes a `VisionConfig` from the content of `vision_config`.

    Raises:
        ConfigError: an unknown key, or a value that is missing or not supported.
    """
    for key, value in raw.items():
        if key in _FIXED:
            if value not in _FIXED[key] or (isinstance(value, bool) and key == "attention_dropout"):
                raise ConfigError(f"config.json: vision_config: {key} = {value!r} is not supported")
        elif key not in _KNOWN and key not in GENERIC:
            raise ConfigError(f"config.json: vision_config: unknown key {key!r} may change the tower")
    for key in _NEEDED:
        if key not in raw:
            raise ConfigError(f"config.json: vision_config.{key} is missing")
    return VisionConfig(
        **{name: raw[name] for name in _SIZES},
        rms_norm_eps=raw["rms_norm_eps"],
        rope_theta=_rope_theta(raw.get("rope_parameters")),
        standardize=raw["standardize"],
        use_clipped_linears=raw["use_clipped_linears"],
    )


def _rope_theta(raw: Any) -> Any:
    if not isinstance(raw, Mapping) or "rope_theta" not in raw:
        raise ConfigError("config.json: vision_config.rope_parameters must have a rope_theta")
    for key in raw:
        if key not in ("rope_type", "rope_theta"):
            raise ConfigError(f"config.json: vision_config.rope_parameters: unknown key {key!r}")
    if raw.get("rope_type", "default") not in ROPE_TYPES:
        found, known = raw["rope_type"], " or ".join(ROPE_TYPES)
        raise ConfigError(f"config.json: vision_config.rope_parameters: rope_type {found!r} is not {known}")
    return raw["rope_theta"]


def write_vision_config(config: VisionConfig) -> dict[str, Any]:
    """Returns a `vision_config` that `transformers` and `read_vision_config` read back."""
    return {
        "model_type": MODEL_TYPE,
        **{name: getattr(config, name) for name in _SIZES},
        "hidden_activation": "gelu_pytorch_tanh",
        "attention_bias": False,
        "attention_dropout": 0.0,
        "rms_norm_eps": config.rms_norm_eps,
        "rope_parameters": {"rope_type": "default", "rope_theta": config.rope_theta},
        "standardize": config.standardize,
        "use_clipped_linears": config.use_clipped_linears,
    }
