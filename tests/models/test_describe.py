"""Figures of a checkpoint, and the published shape by its published figures."""

from pathlib import Path

import pytest
from engine.seeing import make_seeing_folder
from oracle import SHAPES, random_model

from gesso.capacity.machines import PUBLISHED
from gesso.models.describe import describe, folder_bytes, parameters
from gesso.models.saving import save_folder
from gesso.models.vision_loading import load_vision


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
    assert facts["vision_parameters"] == 0


def test_a_tower_counts(tmp_path: Path) -> None:
    folder = make_seeing_folder(tmp_path, 6)
    facts, tower = describe(folder), load_vision(folder, "cpu")
    assert facts["vision_parameters"] == sum(p.numel() for p in tower.parameters()) > 0
    assert facts["bf16_bytes"] == 2 * (facts["parameters"] + facts["vision_parameters"])
