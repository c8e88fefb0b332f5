"""SDAR's config as it is published, and what is refused of it by name."""

import json
from pathlib import Path
from typing import Any

import pytest
from sdar_oracle import make_sdar_folder

from gesso.errors import CheckpointError, ConfigError
from gesso.models.family import family_of, load_family, read_shape
from gesso.models.hf_config import read_config as read_diffusion_gemma
from gesso.models.sdar.config import read_config

PUBLISHED: dict[str, Any] = {
    "architectures": ["SDARForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "attn_implementation": "flex_attention",
    "bos_token_id": 151643,
    "block_size": 4,
    "debug": False,
    "eos_token_id": 151643,
    "ep_size": 1,
    "fuse_cross_entropy": True,
    "head_dim": 128,
    "hidden_act": "silu",
    "hidden_size": 2048,
    "initializer_range": 0.02,
    "intermediate_size": 6144,
    "mask_token_id": 151669,
    "max_position_embeddings": 32768,
    "max_window_layers": 28,
    "model_type": "sdar",
    "num_attention_heads": 16,
    "num_hidden_layers": 28,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-06,
    "rope_scaling": None,
    "rope_theta": 1000000,
    "sliding_window": None,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "use_cache": False,
    "use_sliding_window": False,
    "vocab_size": 151936,
}


def test_the_published_shape_is_read() -> None:
    config = read_config(PUBLISHED)
    assert (config.canvas_length, config.block_length, config.mask_token_id) == (4, 4, 151669)
    assert config.weights() == 2_031_739_904  # of SDAR-1.7B, whose head is not tied
    assert (config.pad_token_id, len(config.layers), config.layers[0].head_dim) == (151643, 28, 128)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("novelty", 1, "novelty"),
        ("hidden_act", "gelu", "hidden_act"),
        ("use_sliding_window", True, "use_sliding_window"),
        ("rope_scaling", {"rope_type": "yarn"}, "rope_scaling"),
        ("block_size", None, "block_size is missing"),
        ("block_size", 12, "power of two"),
        ("mask_token_id", 151936, "mask_token_id"),
        ("num_key_value_heads", 3, "no multiple"),
        ("head_dim", 7, "even"),
        ("rope_theta", "many", "rope_theta"),
        ("tie_word_embeddings", 1, "tie_word_embeddings"),
        ("hidden_size", 2**30, "hidden_size"),
        ("num_hidden_layers", 1024, None),
    ],
)
def test_other_values_are_refused_by_name(key: str, value: Any, said: str | None) -> None:
    if said is None:
        assert read_config({**PUBLISHED, key: value}).num_hidden_layers == value
        return
    with pytest.raises(ConfigError, match=said):
        read_config({**PUBLISHED, key: value})


def test_other_families_readers_refuse_it() -> None:
    with pytest.raises(CheckpointError, match="run and served"):
        read_diffusion_gemma(PUBLISHED)
    with pytest.raises(CheckpointError, match="'llama'"):
        read_config({**PUBLISHED, "model_type": "llama"})


def test_weights_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = make_sdar_folder(tmp_path)
    family, path = family_of(folder), folder / "model.safetensors"
    assert family is not None
    assert read_shape(folder).mask_token_id == json.loads((folder / "config.json").read_text())["mask_token_id"]
    whole = load_file(path)
    spoilt = {
        "unknown": whole | {"extra.weight": whole["model.norm.weight"].clone()},
        "missing": {name: tensor for name, tensor in whole.items() if name != "lm_head.weight"},
        "has shape": whole | {"model.norm.weight": whole["model.norm.weight"][1:].clone()},
        "not finite": whole | {"model.norm.weight": whole["model.norm.weight"] / 0},
    }
    for said, tensors in spoilt.items():
        save_file(tensors, path)
        with pytest.raises(CheckpointError, match=said):
            load_family(folder, family, "cpu", "float32")
