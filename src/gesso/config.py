"""Defines the configs of models and adapters: frozen, complete, changed with `dataclasses.replace`.

`ModelConfig` is the shape of a DiffusionGemma text model, in gesso's own words; reading and writing
Hugging Face's `config.json` is `gesso.models.hf_config`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from gesso.errors import ConfigError
from gesso.options import Texts, checked, option

MAX_LENGTH = 2**24
"""Most tokens of a sequence: positions are turned into angles in fp32, which tells whole numbers apart up to here."""
MAX_LAYERS = 1024
MAX_RANK = 2**16
"""Rank of the largest delta that is made: no layer of a model has use for more."""
MAX_ALPHA = 1_000_000
"""Largest `alpha` of an adapter: fp32 holds what it makes of finite deltas."""
MAX_WEIGHTS = 10**13
"""Numbers of the largest model that is read: 10 TB even in 8 bits, more than any one machine holds."""
_MOST = {
    "canvas_length": (2**16, "a canvas attends to all of itself in every step"),
    "max_position_embeddings": (MAX_LENGTH, "positions are exact in fp32 up to there"),
    "sliding_window": (MAX_LENGTH, "positions are exact in fp32 up to there"),
    "vocab_size": (2**24, "more tokens than any tokenizer has"),
    "hidden_size": (2**20, "wider than any model"),
    "intermediate_size": (2**22, "wider than any model"),
    "moe_intermediate_size": (2**22, "wider than any model"),
    "num_attention_heads": (2**16, "more than any model has"),
    "num_experts": (2**16, "more than any model has"),
}
"""Bounds of a `ModelConfig`, and why: a file that asks for more is refused before anything is made of it."""
_ADAPTER: dict[str, Any] = {"field": None, "group": "Adapter"}
AttentionKind = Literal["sliding_attention", "full_attention"]


def _require_int(name: str, value: object, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        rule = "a positive integer" if least else "an integer of at least 0"
        raise ConfigError(f"{name} must be {rule}, got {value!r}")


@dataclass(frozen=True, slots=True)
class RopeConfig:
    """Configures the rotary positions of one kind of layer.

    `default` turns the whole head; `proportional` turns the first `partial_rotary_factor` of the
    frequency pairs, with exponents over the whole head, and leaves the rest alone.
    """

    rope_type: Literal["default", "proportional"]
    rope_theta: float
    partial_rotary_factor: float = 1.0
    factor: float = 1.0

    def __post_init__(self) -> None:
        if self.rope_theta <= 0 or self.factor <= 0:
            raise ConfigError(f"rope_theta and factor must be positive, got {self.rope_theta} and {self.factor}")
        if not 0 <= self.partial_rotary_factor <= 1:
            raise ConfigError(f"partial_rotary_factor must be in [0, 1], got {self.partial_rotary_factor}")


@dataclass(frozen=True, slots=True)
class LayerConfig:
    """Configures the attention of one layer. Full layers have no V projection: V is the K projection."""

    kind: AttentionKind
    head_dim: int
    num_key_value_heads: int

    @property
    def is_sliding(self) -> bool:
        """Says whether its queries see a window of positions only."""
        return self.kind == "sliding_attention"


class ModelShape(Protocol):
    """Holds all that engine, runner and server know of a model's config, whatever its family. Lengths are in tokens."""

    @property
    def family(self) -> str:
        """Returns the `model_type` of its checkpoints."""

    @property
    def vocab_size(self) -> int: ...

    @property
    def canvas_length(self) -> int: ...

    @property
    def max_position_embeddings(self) -> int: ...

    @property
    def layers(self) -> tuple[LayerConfig, ...]: ...

    @property
    def sliding_window(self) -> int: ...

    @property
    def pad_token_id(self) -> int: ...

    @property
    def eos_token_id(self) -> int: ...

    @property
    def bos_token_id(self) -> int: ...

    @property
    def image_token_ids(self) -> tuple[int, ...]: ...

    @property
    def mask_token_id(self) -> int | None:
        """Returns the token that noise is; None where noise is uniform."""

    @property
    def block_length(self) -> int | None:
        """Returns the length of the blocks that a canvas may not reach out of; None where a canvas begins anywhere."""

    def weights(self) -> int:
        """Counts the numbers in the large matrices."""


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Describes the shape of a DiffusionGemma text model. Lengths are in tokens.

    Raises:
        ConfigError: a value that is impossible, or beyond any model.
    """

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_attention_heads: int
    layers: tuple[LayerConfig, ...]
    num_experts: int
    top_k_experts: int
    moe_intermediate_size: int
    sliding_window: int
    sliding_rope: RopeConfig
    full_rope: RopeConfig
    canvas_length: int
    max_position_embeddings: int = 262_144
    final_logit_softcapping: float = 30.0
    rms_norm_eps: float = 1e-6
    attention_bias: bool = False
    initializer_range: float = 0.02
    pad_token_id: int = 0
    eos_token_id: int = 1
    bos_token_id: int = 2
    image_token_ids: tuple[int, ...] = ()
    vision_config: Mapping[str, Any] | None = None
    """Kept as read, so that what is saved again still describes the vision tower."""
    image_budget: int = 280
    """Soft tokens that an image takes at most where a request says nothing else."""
    calibration: str = ""
    """Names the scales that packed weights were calibrated with; empty where there are none. Adapters fit weights with
    the same scales alone."""

    def __post_init__(self) -> None:
        self._check_sizes()
        self._check_layers()
        for name in ("pad_token_id", "eos_token_id", "bos_token_id"):
            _require_int(name, getattr(self, name), 0)
        _require_int("image_budget", self.image_budget, 1)
        for token in self.image_token_ids:
            _require_int("an image token id", token, 0)
        if not isinstance(self.attention_bias, bool):
            raise ConfigError(f"attention_bias must be true or false, got {self.attention_bias!r}")
        if self.top_k_experts > self.num_experts:
            raise ConfigError(f"top_k_experts {self.top_k_experts} is more than num_experts {self.num_experts}")
        if self.final_logit_softcapping <= 0:
            raise ConfigError(f"final_logit_softcapping must be positive, got {self.final_logit_softcapping}")
        if self.rms_norm_eps <= 0:
            raise ConfigError(f"rms_norm_eps must be positive, got {self.rms_norm_eps}")
        if (weights := self.weights()) > MAX_WEIGHTS:
            raise ConfigError(f"the config describes {weights:.1e} weights, more than any machine holds")

    def _check_sizes(self) -> None:
        for name in (
            "vocab_size",
            "hidden_size",
            "intermediate_size",
            "num_attention_heads",
            "num_experts",
            "top_k_experts",
            "moe_intermediate_size",
            "sliding_window",
            "canvas_length",
            "max_position_embeddings",
        ):
            _require_int(name, getattr(self, name), 1)
        for name, (most, reason) in _MOST.items():
            if getattr(self, name) > most:
                raise ConfigError(f"{name} must be at most {most:,} ({reason}), got {getattr(self, name):,}")

    def _check_layers(self) -> None:
        if not self.layers:
            raise ConfigError("num_hidden_layers must be a positive integer, got 0")
        if len(self.layers) > MAX_LAYERS:
            raise ConfigError(f"num_hidden_layers must be at most {MAX_LAYERS:,}, got {len(self.layers):,}")
        for i, layer in enumerate(self.layers):
            _require_int(f"layer {i}: num_key_value_heads", layer.num_key_value_heads, 1)
            _require_int(f"layer {i}: head_dim", layer.head_dim, 1)
            if self.num_attention_heads % layer.num_key_value_heads:
                raise ConfigError(
                    f"layer {i}: num_attention_heads {self.num_attention_heads} is no multiple of "
                    f"num_key_value_heads {layer.num_key_value_heads}"
                )
            if layer.head_dim % 2:
                raise ConfigError(f"layer {i}: head_dim must be even, got {layer.head_dim}")
            if layer.head_dim > _MOST["hidden_size"][0]:
                raise ConfigError(f"layer {i}: head_dim must be at most {_MOST['hidden_size'][0]:,}")

    @property
    def family(self) -> str:
        """Returns the `model_type` of its checkpoints."""
        return "diffusion_gemma"

    @property
    def mask_token_id(self) -> None:
        """Returns None: noise is uniform."""

    @property
    def block_length(self) -> None:
        """Returns None: a canvas begins anywhere."""

    def weights(self) -> int:
        """Counts the numbers in the large matrices."""
        expert = 3 * self.hidden_size * self.moe_intermediate_size
        layer = 3 * self.hidden_size * self.intermediate_size + self.num_experts * (expert + self.hidden_size)
        heads = sum(2 * (self.num_attention_heads + of.num_key_value_heads) * of.head_dim for of in self.layers)
        return self.hidden_size * (self.vocab_size + heads) + len(self.layers) * layer

    def rope(self, kind: AttentionKind) -> RopeConfig:
        """Returns the rotary positions of the layers of a kind."""
        return self.sliding_rope if kind == "sliding_attention" else self.full_rope


@dataclass(frozen=True, slots=True)
class LoraConfig:
    """Configures a low-rank adapter: which layers get a delta, and of what size.

    Raises:
        OptionError: an impossible value.
    """

    rank: int = option(8, "Rank of the adapter's matrices.", minimum=1, maximum=MAX_RANK, **_ADAPTER)
    alpha: float = option(
        16.0,
        "Deltas are scaled by alpha / rank, or by alpha / sqrt(rank) where they are rank-stabilised.",
        above=0,
        maximum=MAX_ALPHA,
        **_ADAPTER,
    )
    dropout: float = option(0.0, "Dropout of the adapter's input.", minimum=0, below=1, **_ADAPTER)
    targets: tuple[str, ...] = option(
        ("layers.*.attention.*", "layers.*.mlp.*", "self_conditioning.*"),
        "Layers with a delta: shell patterns on names; layers.*.experts and layers.*.router.proj have none unless "
        "named.",
        kind=Texts(),
        flag="--target",
        **_ADAPTER,
    )
    rank_stabilised: bool = False
    separate: bool = False
    """Encoder and decoder have a delta each, as PEFT gives them on the reference. Their weights are one, so such an
    adapter cannot be merged."""

    def __post_init__(self) -> None:
        checked(self)

    @property
    def scale(self) -> float:
        """Returns the factor of the deltas, as PEFT defines it."""
        root: float = self.rank**0.5
        return self.alpha / (root if self.rank_stabilised else self.rank)
