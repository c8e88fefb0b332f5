"""The shape of a model from a GGUF file's metadata."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch

from gesso.errors import CheckpointError, ConfigError
from gesso.models.gguf.config import read_gguf_config
from gesso.models.loading import read_model_config
from models.gguf.published import ARCHITECTURE, TOKENS, write_published

OWN = f"{ARCHITECTURE}."


def test_it_is_what_the_released_config_says(released: Path, whole: Path) -> None:
    images = tuple(TOKENS.index(token) for token in ("<|image>", "<|image|>", "<image|>"))
    expected = dataclasses.replace(
        read_model_config(released), max_position_embeddings=4096, image_token_ids=images, vision_config=None
    )
    assert read_gguf_config(whole) == expected


def test_one_number_of_key_heads_is_that_of_every_layer(released: Path, tmp_path: Path) -> None:
    path = write_published(tmp_path / "a.gguf", released, changes={OWN + "attention.head_count_kv": 2})
    assert [layer.num_key_value_heads for layer in read_gguf_config(path).layers] == [2, 2, 2]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"general.architecture": "gemma4"}, "general.architecture is 'gemma4'; gesso reads 'diffusion-gemma'"),
        ({OWN + "attention.shared_kv_layers": 2}, "shared_kv_layers is not 0"),
        ({OWN + "embedding_length_per_layer_input": 8}, "embedding_length_per_layer_input is not 0"),
        ({OWN + "embedding_length": None}, "embedding_length is missing, where a int belongs"),
        ({OWN + "embedding_length": "wide"}, "embedding_length is 'wide', where a int belongs"),
        ({OWN + "rope.freq_base": 5}, "rope.freq_base is 5, where a float belongs"),
        ({OWN + "block_count": 4}, "says 3 layers and head_count_kv 3, block_count 4"),
        ({OWN + "block_count": 10**8}, "block_count must be at most"),
        ({"diffusion.canvas_length": None}, "diffusion.canvas_length is missing"),
        ({"tokenizer.ggml.tokens": None}, "tokenizer.ggml.tokens is missing"),
        ({"tensors": {"rope_freqs.weight": None}}, "has no rope_freqs.weight"),
        ({"tensors": {"rope_freqs.weight": torch.ones(8)}}, "scales angles"),
        ({"tensors": {"rope_freqs.weight": torch.full((16,), 2.0)}}, "scales angles"),
        ({"tensors": {"rope_freqs.weight": torch.full((16,), 1e30)}}, "scales angles"),
    ],
)
def test_what_is_missing_or_of_another_model_is_refused(
    released: Path, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    path = write_published(tmp_path / "a.gguf", released, changes=changes)
    with pytest.raises(CheckpointError) as refused:
        read_gguf_config(path)
    assert message in str(refused.value)
    assert str(refused.value).startswith("a.gguf")


def test_an_impossible_value_is_refused(released: Path, tmp_path: Path) -> None:
    path = write_published(tmp_path / "a.gguf", released, changes={OWN + "expert_used_count": 9})
    with pytest.raises(ConfigError, match="top_k_experts 9 is more than num_experts 4"):
        read_gguf_config(path)
