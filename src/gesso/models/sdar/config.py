"""Describes an SDAR model, and reads its `config.json`.

SDAR writes its settings without sections. `block_size` is the canvas here: a block is denoised at once, and its
positions are multiples of it, counted from the beginning of the prompt. Unknown keys are refused by name.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gesso.config import MAX_LAYERS, MAX_LENGTH, MAX_WEIGHTS, LayerConfig, RopeConfig
from gesso.errors import CheckpointError, ConfigError
from gesso.models.hf_config_keys import GENERIC

MODEL_TYPE = "sdar"
_WIDEST = 2**24
"""More than any size of a model: a file that asks for more is refused before anything is made of it."""
_SIZES = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "num_hidden_layers",
    "block_size",
    "max_position_embeddings",
)
_FIXED: dict[str, tuple[Any, ...]] = {
    "hidden_act": ("silu",),
    "use_sliding_window": (False, None),
    "sliding_window": (None,),
    "rope_scaling": (None,),
    "quantization_config": (None,),
}
"""Keys that may stand in a config only with a value that means what we compute."""
_NEUTRAL = {
    "attention_dropout",
    "attn_implementation",
    "debug",
    "ep_size",
    "fuse_cross_entropy",
    "max_window_layers",
    "micro_forward",
    "skip_checkpoint",
    "use_deepep",
}
"""Keys of training and of other programs' kernels, which change nothing that is computed here."""
_READ = {
    *_SIZES,
    "attention_bias",
    "bos_token_id",
    "eos_token_id",
    "mask_token_id",
    "model_type",
    "pad_token_id",
    "rms_norm_eps",
    "rope_theta",
    "tie_word_embeddings",
}


@dataclass(frozen=True, slots=True)
class SdarConfig:
    """Describes the shape of an SDAR model; satisfies `gesso.config.ModelShape`. Lengths are in tokens.

    Raises:
        ConfigError: a value that is impossible, or beyond any model.
    """

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    num_hidden_layers: int
    block_size: int
    mask_token_id: int
    rope_theta: float = 10_000.0
    max_position_embeddings: int = 32_768
    rms_norm_eps: float = 1e-6
    attention_bias: bool = False
    tie_word_embeddings: bool = False
    pad_token_id: int = 0
    eos_token_id: int = 0
    bos_token_id: int = 0

    def __post_init__(self) -> None:
        self._check_values()
        if self.num_attention_heads % self.num_key_value_heads:
            raise ConfigError(
                f"num_attention_heads {self.num_attention_heads} is no multiple of num_key_value_heads "
                f"{self.num_key_value_heads}"
            )
        if self.head_dim % 2:
            raise ConfigError(f"head_dim must be even, got {self.head_dim}")
        if self.block_size not in (1 << power for power in range(8)):
            # Prompts are read in pieces of 128 tokens and more, which must be whole blocks.
            raise ConfigError(f"block_size must be a power of two up to 128, got {self.block_size}")
        if (weights := self.weights()) > MAX_WEIGHTS:
            raise ConfigError(f"the config describes {weights:.1e} weights, more than any machine holds")

    def _check_values(self) -> None:
        for name in _SIZES:
            most = {"num_hidden_layers": MAX_LAYERS, "max_position_embeddings": MAX_LENGTH}.get(name, _WIDEST)
            _check_integer(name, getattr(self, name), 1, most)
        for name in ("mask_token_id", "pad_token_id", "eos_token_id", "bos_token_id"):
            _check_integer(name, getattr(self, name), 0, self.vocab_size - 1)
        for name in ("attention_bias", "tie_word_embeddings"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(f"{name} must be true or false, got {getattr(self, name)!r}")
        for name in ("rope_theta", "rms_norm_eps"):
            value = getattr(self, name)
            if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < float("inf"):
                raise ConfigError(f"{name} must be a positive number, got {value!r}")

    def weights(self) -> int:
        """Counts the numbers of the model."""
        size, queries = self.hidden_size, self.num_attention_heads * self.head_dim
        keys = self.num_key_value_heads * self.head_dim
        norms, biases = 2 * size + 2 * self.head_dim, (queries + 2 * keys + size) * self.attention_bias
        layer = size * (2 * queries + 2 * keys + 3 * self.intermediate_size) + norms + biases
        tables = 1 if self.tie_word_embeddings else 2
        return tables * self.vocab_size * size + self.num_hidden_layers * layer + size

    @property
    def family(self) -> str:
        return MODEL_TYPE

    @property
    def canvas_length(self) -> int:
        return self.block_size

    @property
    def block_length(self) -> int | None:
        return self.block_size

    @property
    def layers(self) -> tuple[LayerConfig, ...]:
        layer = LayerConfig("full_attention", self.head_dim, self.num_key_value_heads)
        return (layer,) * self.num_hidden_layers

    @property
    def sliding_window(self) -> int:
        """Returns the whole context: no layer slides."""
        return self.max_position_embeddings

    @property
    def image_token_ids(self) -> tuple[int, ...]:
        return ()

    @property
    def rope(self) -> RopeConfig:
        return RopeConfig("default", self.rope_theta)


def _check_integer(name: str, value: object, least: int, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ConfigError(f"{name} must be an integer from {least} to {most:,}, got {value!r}")


def read_config(raw: Mapping[str, Any]) -> SdarConfig:
    """Makes an `SdarConfig` from the content of `config.json`.

    Raises:
        CheckpointError: another model type.
        ConfigError: an unknown key, or a value that is missing or not supported.
    """
    if raw.get("model_type") != MODEL_TYPE:
        raise CheckpointError(f"config.json: model_type is {raw.get('model_type')!r}, not {MODEL_TYPE!r}")
    for key, value in raw.items():
        if key in _FIXED:
            if value not in _FIXED[key]:
                raise ConfigError(f"config.json: {key} = {value!r} is not supported")
        elif key not in _READ | _NEUTRAL | GENERIC:
            raise ConfigError(f"config.json: unknown key {key!r} may change the model; it is not supported")
    for key in (*_SIZES, "mask_token_id"):
        if raw.get(key) is None:
            raise ConfigError(f"config.json: {key} is missing")
    given = {key: raw[key] for key in _READ - {"model_type"} if raw.get(key) is not None}
    for key in ("eos_token_id", "bos_token_id"):
        if isinstance(given.get(key), list):
            given[key] = (*given[key], 0)[0]
    given.setdefault("pad_token_id", given.get("eos_token_id", 0))
    return SdarConfig(**given)
