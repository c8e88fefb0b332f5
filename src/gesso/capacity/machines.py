"""Names GPUs by what they hold and do, and the shape of the published model."""

from dataclasses import dataclass

from gesso.bench.floor import Rates
from gesso.config import LayerConfig, ModelConfig, RopeConfig
from gesso.errors import OptionError
from gesso.models.vision_config import VisionConfig, write_vision_config


@dataclass(frozen=True, slots=True)
class Gpu:
    """Holds a GPU's figures, as its maker gives them."""

    name: str
    memory: float
    """Bytes."""
    bandwidth: float
    """Bytes a second."""
    bf16: float
    """Operations a second, dense."""

    @property
    def rates(self) -> Rates:
        """Returns what the floor of a step is computed from; products of packed weights are taken at bf16's rate."""
        return Rates(self.bandwidth, self.bf16)


GPUS = {
    gpu.name: gpu
    for gpu in (
        Gpu("h200", 141e9, 4.80e12, 989e12),
        Gpu("h100", 80e9, 3.35e12, 989e12),
        Gpu("b200", 180e9, 7.70e12, 2250e12),
        Gpu("a100", 80e9, 2.04e12, 312e12),
        Gpu("l40s", 48e9, 0.864e12, 362e12),
        Gpu("l4", 24e9, 0.300e12, 121e12),
        Gpu("rtx5090", 32e9, 1.79e12, 210e12),
        Gpu("rtx4090", 24e9, 1.01e12, 165e12),
    )
}

_SLIDING = LayerConfig("sliding_attention", head_dim=256, num_key_value_heads=8)
_FULL = LayerConfig("full_attention", head_dim=512, num_key_value_heads=2)
_TOWER = VisionConfig(
    hidden_size=1152,
    intermediate_size=4304,
    num_hidden_layers=27,
    num_attention_heads=16,
    num_key_value_heads=16,
    head_dim=72,
    patch_size=16,
    pooling_kernel_size=3,
    position_embedding_size=10_240,
    rms_norm_eps=1e-6,
    rope_theta=100.0,
    standardize=True,
    use_clipped_linears=False,
)
PUBLISHED = ModelConfig(
    vocab_size=262_144,
    hidden_size=2816,
    intermediate_size=2112,
    num_attention_heads=16,
    layers=((_SLIDING,) * 5 + (_FULL,)) * 5,
    num_experts=128,
    top_k_experts=8,
    moe_intermediate_size=704,
    sliding_window=1024,
    sliding_rope=RopeConfig("default", 10_000.0),
    full_rope=RopeConfig("proportional", 1_000_000.0, 0.25),
    canvas_length=256,
    vision_config=write_vision_config(_TOWER),
)
"""The model of google/diffusiongemma-26B-A4B-it."""


def find_gpu(name: str) -> Gpu:
    """Finds a GPU by its name, in capital or small letters.

    Raises:
        OptionError: it is not known.
    """
    if name.lower() not in GPUS:
        raise OptionError(f"--gpu {name!r} is not known; known: {', '.join(GPUS)}", option="gpu")
    return GPUS[name.lower()]
