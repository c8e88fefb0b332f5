"""Makes the shape of a model from the metadata of a GGUF file of DiffusionGemma.

The keys are those of the published files (`unsloth/diffusiongemma-26B-A4B-it-GGUF`): Gemma 4's, under the name of
their own architecture, beside `diffusion.canvas_length`.
"""

from pathlib import Path
from typing import Any

from gesso.config import MAX_LAYERS, LayerConfig, ModelConfig, RopeConfig
from gesso.errors import CheckpointError
from gesso.models.gguf.file import metadata, rope_factors

ARCHITECTURE = "diffusion-gemma"
IMAGE_TOKENS = ("<|image>", "<|image|>", "<image|>")
"""Begin, soft token and end of an image. These files hold no tower, but its tokens."""
NO_TURN = 1e20
"""What a pair of dimensions is divided by at least that does not turn; the files say 1e30."""
_ZERO = ("attention.shared_kv_layers", "embedding_length_per_layer_input")
"""Parts of Gemma 4 that DiffusionGemma does not have."""


def read_gguf_config(path: Path) -> ModelConfig:
    """Reads the shape of the model in a GGUF file.

    Raises:
        CheckpointError: a file of another architecture, or a key that is missing or of another kind.
        ConfigError: an impossible value.
    """
    found = metadata(path, "general.architecture")
    if found != ARCHITECTURE:
        raise CheckpointError(f"{path.name}: general.architecture is {found!r}; gesso reads {ARCHITECTURE!r}")
    for key in _ZERO:
        if metadata(path, f"{ARCHITECTURE}.{key}"):
            raise CheckpointError(f"{path.name}: {ARCHITECTURE}.{key} is not 0, which is not supported")
    layers, tokens = _layers(path), _need(path, "tokenizer.ggml.tokens", list)
    images = tuple(tokens.index(token) for token in IMAGE_TOKENS if token in tokens)
    return ModelConfig(
        vocab_size=len(tokens),
        hidden_size=_own(path, "embedding_length"),
        intermediate_size=_own(path, "feed_forward_length"),
        num_attention_heads=_own(path, "attention.head_count"),
        layers=layers,
        num_experts=_own(path, "expert_count"),
        top_k_experts=_own(path, "expert_used_count"),
        moe_intermediate_size=_own(path, "expert_feed_forward_length"),
        sliding_window=_own(path, "attention.sliding_window"),
        sliding_rope=RopeConfig("default", _own(path, "rope.freq_base_swa", float)),
        full_rope=_full_rope(path, layers),
        canvas_length=_need(path, "diffusion.canvas_length", int),
        max_position_embeddings=_own(path, "context_length"),
        final_logit_softcapping=_own(path, "final_logit_softcapping", float),
        rms_norm_eps=_rounded(_own(path, "attention.layer_norm_rms_epsilon", float)),
        pad_token_id=_need(path, "tokenizer.ggml.padding_token_id", int),
        eos_token_id=_need(path, "tokenizer.ggml.eos_token_id", int),
        bos_token_id=_need(path, "tokenizer.ggml.bos_token_id", int),
        image_token_ids=images if len(images) == len(IMAGE_TOKENS) else (),
    )


def _need(path: Path, key: str, kind: type) -> Any:
    value = metadata(path, key)
    if not isinstance(value, kind) or isinstance(value, bool):
        what = "missing" if value is None else f"{value!r:.60}"
        raise CheckpointError(f"{path.name}: {key} is {what}, where a {kind.__name__} belongs")
    return value


def _own(path: Path, key: str, kind: type = int) -> Any:
    return _need(path, f"{ARCHITECTURE}.{key}", kind)


def _rounded(value: float) -> float:
    """Returns the number that was meant by one of single precision."""
    return float(f"{value:.6g}")


def _layers(path: Path) -> tuple[LayerConfig, ...]:
    count = _own(path, "block_count")
    if count > MAX_LAYERS:
        raise CheckpointError(f"{path.name}: {ARCHITECTURE}.block_count must be at most {MAX_LAYERS:,}, got {count:,}")
    slides = _own(path, "attention.sliding_window_pattern", list)
    heads = metadata(path, f"{ARCHITECTURE}.attention.head_count_kv")
    heads = heads if isinstance(heads, list) else [heads] * count
    if not len(slides) == len(heads) == count:
        raise CheckpointError(
            f"{path.name}: sliding_window_pattern says {len(slides)} layers and head_count_kv {len(heads)}, "
            f"block_count {count}"
        )
    dims = {True: _own(path, "attention.key_length_swa"), False: _own(path, "attention.key_length")}
    return tuple(
        LayerConfig("sliding_attention" if slide else "full_attention", dims[bool(slide)], kv)
        for slide, kv in zip(slides, heads, strict=True)
    )


def _full_rope(path: Path, layers: tuple[LayerConfig, ...]) -> RopeConfig:
    """Returns the rotary embedding of full layers: the part of a head that turns is the first of `rope_freqs`."""
    theta, factors = _own(path, "rope.freq_base", float), rope_factors(path)
    pairs = next((layer.head_dim // 2 for layer in layers if not layer.is_sliding), 0)
    if factors is None:
        raise CheckpointError(f"{path.name} has no rope_freqs.weight, which says what part of a head turns")
    turning = int((factors < NO_TURN).sum())
    plain = len(factors) == pairs and bool((factors[:turning] == 1).all())
    if not plain or not turning:
        raise CheckpointError(f"{path.name}: rope_freqs.weight scales angles, which is not supported")
    return RopeConfig("proportional", theta, turning / pairs)
