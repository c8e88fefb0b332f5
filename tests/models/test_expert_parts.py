"""Some of the experts of a checkpoint, read alone."""

from pathlib import Path
from typing import Literal

import pytest
import torch
from oracle import Shape, random_model

from gesso.models.expert_parts import is_of_experts
from gesso.models.loading import load_folder
from gesso.models.quantization.convert import quantize_folder
from gesso.models.quantization.plan import Quantization
from gesso.models.saving import save_folder
from gesso.nn.quant.integer import Int8

SHAPE = Shape("sf", hidden=32, mlp=48, experts=4, expert_size=16)


@pytest.mark.parametrize("held", ["whole", "nf4", "int8"])
def test_some_experts_are_those_of_all(tmp_path: Path, held: str) -> None:
    """Whole ones, ones that are packed while they are read, and ones that are stored packed."""
    folder = tmp_path / "plain"
    save_folder(random_model(SHAPE), folder)
    if held == "int8":
        quantize_folder(folder, tmp_path / "packed", Quantization(None, Int8()))
        folder = tmp_path / "packed"
    quantize: Literal["nf4"] | None = "nf4" if held == "nf4" else None
    whole = load_folder(folder, "cpu", "float32", quantize).state_dict()
    part = load_folder(folder, "cpu", "float32", quantize, experts=range(1, 3)).state_dict()
    assert whole.keys() == part.keys()
    assert sum(is_of_experts(name) for name in whole) >= 4
    for name, tensor in whole.items():
        assert torch.equal(part[name], tensor[1:3] if is_of_experts(name) else tensor), name
