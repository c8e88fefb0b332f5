"""A whole checkpoint folder with random weights that sees, and pictures for it."""

import dataclasses
import io
from pathlib import Path

import numpy as np
import torch
from oracle import randomise
from PIL import Image

from engine.tiny import SHARP, tiny_recipe
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.saving import save_folder
from gesso.models.vision_config import VisionConfig, write_vision_config
from gesso.models.vision_tower import VisionModel

TOWER = VisionConfig(
    hidden_size=16,
    intermediate_size=16,
    num_hidden_layers=1,
    num_attention_heads=2,
    num_key_value_heads=2,
    head_dim=8,
    patch_size=4,
    pooling_kernel_size=3,
    position_embedding_size=256,
    rms_norm_eps=1e-6,
    rope_theta=100.0,
    standardize=True,
    use_clipped_linears=False,
)
"""A soft token is 12 x 12 pixels: at a budget of 70 a square takes 64."""


def make_seeing_folder(folder: Path, window: int = 6) -> Path:
    """The tiny checkpoint with a tower. What it answers depends on what it sees."""
    recipe = tiny_recipe()
    config = dataclasses.replace(recipe.model, vision_config=write_vision_config(TOWER), sliding_window=window)
    model, vision = DiffusionGemma(config), VisionModel(TOWER, config.hidden_size)
    randomise(model, seed=1)
    randomise(vision, seed=2)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(("post_attention_norm.weight", "post_norm.weight", "conditioning.mlp.down_proj.weight")):
                parameter.mul_(0.3)
            if name == "norm.weight":
                parameter.mul_(SHARP)
    save_folder(model, folder, generation=recipe.generation, vision=vision)
    recipe.text.write(folder)
    return folder


def picture(width: int = 36, height: int = 36, seed: int = 0) -> Image.Image:
    """A picture of noise."""
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8))


def png(seed: int = 0) -> bytes:
    """The same in a file."""
    out = io.BytesIO()
    picture(seed=seed).save(out, "PNG")
    return out.getvalue()
