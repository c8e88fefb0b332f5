"""What a vision tower takes in training, counted beside what it keeps when it runs."""

import dataclasses

import pytest
import torch
from engine.seeing import TOWER
from models.test_vision_config import PUBLISHED
from torch import Tensor

from gesso.models.vision_config import read_vision_config
from gesso.models.vision_tower import VisionModel
from gesso.train.estimate_vision import ImageLoad, vision_bytes
from gesso.train.vision import initialise_vision

IMAGES, SIDE, HIDDEN = 3, 24, 24


def kept(vision: VisionModel) -> int:
    """Bytes of what the backward pass of some square images needs, parameters aside."""
    own = {p.untyped_storage().data_ptr() for p in (*vision.parameters(), *vision.buffers())}
    held: dict[int, torch.UntypedStorage] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            held[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        vision(torch.rand(IMAGES, SIDE**2, vision.config.pixels), SIDE, SIDE)
    return sum(storage.nbytes() for storage in held.values())


@pytest.mark.parametrize("layers", [1, 4])
def test_a_tower_that_learns_takes_what_it_keeps(layers: int) -> None:
    config = dataclasses.replace(TOWER, hidden_size=32, intermediate_size=64, num_hidden_layers=layers)
    vision = VisionModel(config, HIDDEN)
    initialise_vision(vision, 0)
    numbers = sum(p.numel() for p in vision.parameters())
    found = vision_bytes(ImageLoad(config, IMAGES, 70, trained=True), HIDDEN, 1, torch.float32)
    assert found == pytest.approx(kept(vision) + 16 * numbers, rel=0.15)


def test_a_frozen_tower_takes_its_weights_and_little_more() -> None:
    config = read_vision_config(PUBLISHED)
    one = vision_bytes(ImageLoad(config, 1, 280), 2816, 1, torch.bfloat16)
    assert one == pytest.approx(1.15e9, rel=0.1)
    assert one < vision_bytes(ImageLoad(config, 4, 280), 2816, 8, torch.bfloat16) < 1.1 * one
    trained = ImageLoad(dataclasses.replace(config, num_hidden_layers=1), 1, 70, trained=True)
    usual = vision_bytes(trained, 2816, 1, torch.bfloat16)
    assert usual > 16 * 23_592_960  # the table of positions alone
    assert vision_bytes(trained, 2816, 1, torch.bfloat16, "adamw8bit") < usual
    assert vision_bytes(trained, 2816, 1, torch.bfloat16, "muon") < usual
