"""`vision_config`, both ways; nothing is guessed and nothing is dropped."""

import warnings
from dataclasses import replace
from typing import Any

import pytest

from gesso.errors import ConfigError
from gesso.models.vision_config import read_vision_config, write_vision_config

PUBLISHED: dict[str, Any] = {
    "model_type": "gemma4_vision",
    "attention_bias": False,
    "attention_dropout": 0.0,
    "default_output_length": 280,
    "dtype": "bfloat16",
    "global_head_dim": 72,
    "head_dim": 72,
    "hidden_activation": "gelu_pytorch_tanh",
    "hidden_size": 1152,
    "initializer_range": 0.02,
    "intermediate_size": 4304,
    "max_position_embeddings": 131072,
    "num_attention_heads": 16,
    "num_hidden_layers": 27,
    "num_key_value_heads": 16,
    "patch_size": 16,
    "pooling_kernel_size": 3,
    "position_embedding_size": 10240,
    "rms_norm_eps": 1e-6,
    "rope_parameters": {"rope_theta": 100.0, "rope_type": "default"},
    "standardize": True,
    "use_clipped_linears": False,
}


def test_the_published_config() -> None:
    config = read_vision_config(PUBLISHED)
    assert (config.hidden_size, config.num_hidden_layers, config.head_dim) == (1152, 27, 72)
    assert (config.pixels, config.rope_theta, config.standardize, config.use_clipped_linears) == (
        768,
        100.0,
        True,
        False,
    )
    assert read_vision_config(write_vision_config(config)) == config


def test_both_spellings_of_the_rope_type() -> None:
    axial = PUBLISHED | {"rope_parameters": {"rope_theta": 100.0, "rope_type": "axial"}}
    assert read_vision_config(axial) == read_vision_config(PUBLISHED)


def test_the_reference_reads_what_is_written_and_writes_what_is_read() -> None:
    config = replace(read_vision_config(PUBLISHED), num_hidden_layers=2, standardize=False, use_clipped_linears=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from transformers import Gemma4VisionConfig

        theirs = Gemma4VisionConfig(**write_vision_config(config)).to_dict()
    assert theirs["rope_parameters"]["rope_type"] == "axial"
    assert read_vision_config(theirs) == config


@pytest.mark.parametrize("key", sorted(PUBLISHED.keys() - {
    "attention_bias", "attention_dropout", "default_output_length", "dtype", "global_head_dim", "initializer_range",
    "max_position_embeddings",
}))  # fmt: skip
def test_what_is_missing_is_named(key: str) -> None:
    raw = {name: value for name, value in PUBLISHED.items() if name != key}
    with pytest.raises(ConfigError, match=key):
        read_vision_config(raw)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("register_tokens", 4),
        ("model_type", "siglip_vision_model"),
        ("hidden_activation", "quick_gelu"),
        ("attention_bias", True),
        ("attention_dropout", 0.1),
        ("attention_dropout", False),
        ("head_dim", 70),
        ("head_dim", True),
        ("hidden_size", 0),
        ("hidden_size", 1152.0),
        ("num_hidden_layers", "27"),
        ("num_key_value_heads", 3),
        ("rms_norm_eps", 0.0),
        ("rms_norm_eps", float("nan")),
        ("standardize", 1),
        ("use_clipped_linears", None),
        ("rope_parameters", None),
        ("rope_parameters", {"rope_type": "default"}),
        ("rope_parameters", {"rope_theta": 100.0, "rope_type": "yarn"}),
        ("rope_parameters", {"rope_theta": 100.0, "factor": 2.0}),
        ("rope_parameters", {"rope_theta": -1.0}),
    ],
)
def test_what_is_not_supported_is_named(key: str, value: object) -> None:
    with pytest.raises(ConfigError, match=rf"vision_config.*({key}|rope_)"):
        read_vision_config(PUBLISHED | {key: value})
