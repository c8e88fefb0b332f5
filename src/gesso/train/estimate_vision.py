"""Estimates the memory that vision tower and projector take in a training run, from their config alone."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from gesso.models.vision_config import VisionConfig
from gesso.models.vision_tower import VisionModel
from gesso.runner.image_embeddings import KEPT_BYTES
from gesso.train.config import Optimizer
from gesso.train.muon import is_hidden_matrix

MOMENT_BYTES = {"adamw": 8.0, "adamw8bit": 2 + 2 * 4 / 256, "muon": 8.0}
"""Bytes of AdamW's two moments for each number trained; 8-bit ones come with an fp32 scale for every 256."""
MUON_BYTES = 4.0
"""Bytes of the one moment that Muon has of its matrices."""


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
    moments = sum(
        p.numel() * (MUON_BYTES if optimizer == "muon" and is_hidden_matrix(name, p) else MOMENT_BYTES[optimizer])
        for name, p in vision.named_parameters(prefix="vision")
    )
    half = 2 * numbers if dtype != torch.float32 else 0  # autocast's copies, for the time of a step
    return 8 * numbers + half + int(moments) + _kept(vision.to(dtype), examples * load.images, patches)


def _kept(vision: VisionModel, images: int, side: int) -> int:
    """Bytes of what autograd keeps of so many square images, parameters aside. Scores are not among it: fused kernels
    do without them, and PyTorch's plain form, which the meta device takes, does not."""
    own = {t.untyped_storage()._cdata for t in (*vision.parameters(), *vision.buffers())}
    storages: dict[int, torch.UntypedStorage] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in own and tuple(tensor.shape[-2:]) != (side**2, side**2):
            storages[storage._cdata] = storage  # held, so that no later one takes its place
        return tensor

    pixels = torch.empty(images, side**2, vision.config.pixels, device="meta")
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        vision(pixels, side, side)
    return sum(storage.nbytes() for storage in storages.values())
