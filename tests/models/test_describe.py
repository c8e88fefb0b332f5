"""Figures of a checkpoint, and the published shape by its published figures."""

from pathlib import Path

import pytest
from oracle import SHAPES, random_model

from gesso.config import LayerConfig, ModelConfig, RopeConfig
from gesso.models.describe import describe, folder_bytes, parameters
from gesso.models.saving import save_folder

SLIDING = LayerConfig("sliding_attention", head_dim=256, num_key_value_heads=8)
FULL = LayerConfig("full_attention", head_dim=512, num_key_value_heads=2)
PUBLISHED = ModelConfig(
    vocab_size=262_144,
    hidden_size=2816,
    intermediate_size=2112,
    num_attention_heads=16,
    layers=((SLIDING,) * 5 + (FULL,)) * 5,
    num_experts=128,
    top_k_experts=8,
    moe_intermediate_size=704,
    sliding_window=1024,
    sliding_rope=RopeConfig("default", 10_000.0),
    full_rope=RopeConfig("proportional", 1_000_000.0, 0.25),
    canvas_length=256,
)


def test_published_shape_has_the_published_number_of_parameters() -> None:
    total, active = parameters(PUBLISHED)
    assert total == pytest.approx(25.2e9, rel=0.005)
    assert active == pytest.approx(3.8e9, rel=0.03)


def test_describe_reads_no_weights(tmp_path: Path) -> None:
    model = random_model(SHAPES["plain"])
    save_folder(model, tmp_path)
    facts = describe(tmp_path)
    assert facts["parameters"] == sum(p.numel() for p in model.parameters())
    assert facts["weights_bytes"] == folder_bytes(tmp_path) > 4 * facts["parameters"]
    assert facts["canvas_length"] == SHAPES["plain"].canvas
