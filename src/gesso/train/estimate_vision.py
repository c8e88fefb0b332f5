"""Estimates the memory that vision tower and projector take in a training run, from their config alone."""

import math
from dataclasses import dataclass

import torch

from gesso.models.vision_config import VisionConfig
from gesso.models.vision_tower import VisionModel
from gesso.runner.image_embeddings import KEPT_BYTES
from gesso.train.config import Optimizer
from gesso.train.estimate_parts import moment_bytes, saved_bytes


@dataclass(frozen=True, slots=True)
class ImageLoad:
    """Describes the images of one example, and what becomes of the tower."""

    config: VisionConfig
    images: int
    soft_tokens: int
    """Soft tokens of each image; they are tokens of the example, too."""
    trained: bool = False


def vision_bytes(
    load: ImageLoad, hidden_size: int, examples: int, dtype: torch.dtype, optimizer: Optimizer = "adamw"
) -> int:
    """Estimates the bytes at the peak of a step.

    A frozen tower encodes one image at a time, and keeps embeddings up to a bound. One that is trained keeps what its
    backward pass needs of all images of a step, and has fp32 weights, gradients and moments.

    Args:
        hidden_size: of the text model.
        examples: taken through the model at a time.
        dtype: of activations, and of frozen weights.
    """
    with torch.device("meta"):
        vision = VisionModel(load.config, hidden_size)
    numbers = sum(parameter.numel() for parameter in vision.parameters())
    side = max(1, math.isqrt(load.soft_tokens))  # a square, whose soft tokens are no more
    patches = side * load.config.pooling_kernel_size
    if not load.trained:
        widest = 3 * load.config.intermediate_size + 2 * load.config.hidden_size
        embeddings = examples * load.images * load.soft_tokens * hidden_size
        work = patches**2 * widest
        return dtype.itemsize * (numbers + work + embeddings) + min(KEPT_BYTES, dtype.itemsize * embeddings)
    moments = moment_bytes(vision.named_parameters(prefix="vision"), optimizer)
    half = 2 * numbers if dtype != torch.float32 else 0  # autocast's copies, for the time of a step
    return 8 * numbers + half + moments + _kept(vision.to(dtype), examples * load.images, patches)


def _kept(vision: VisionModel, images: int, side: int) -> int:
    """Bytes of what autograd keeps of so many square images, parameters aside. Scores are not among it: fused kernels
    do without them, and PyTorch's plain form, which the meta device takes, does not."""
    pixels = torch.empty(images, side**2, vision.config.pixels, device="meta")
    with saved_bytes(vision, without=(side**2, side**2)) as counted:
        vision(pixels, side, side)
    return counted()
