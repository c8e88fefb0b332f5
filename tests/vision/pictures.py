"""Pictures made here, and the reference's processor."""

import io
import warnings
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image


def numbers(*shape: int, seed: int = 0) -> NDArray[np.uint8]:
    """Smooth colours with noise on top, so that resampling and order both show."""
    generator = np.random.default_rng([seed, *shape])
    grid = np.indices(shape).sum(axis=0) * 7 + np.indices(shape)[-1] * 60
    return ((grid + generator.integers(0, 40, shape)) % 256).astype(np.uint8)


def photo(width: int, height: int, seed: int = 0) -> Image.Image:
    return Image.fromarray(numbers(height, width, 3, seed=seed))


def encoded(image: Image.Image, kind: str, **options: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


@cache
def processor() -> Any:
    """`Gemma4ImageProcessorPil`, imported quietly."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from transformers.models.gemma4.image_processing_pil_gemma4 import Gemma4ImageProcessorPil

        return Gemma4ImageProcessorPil()


def reference(image: Any, budget: int) -> tuple[NDArray[np.float32], NDArray[np.int64], int]:
    """Pixel values [P, V] and positions [P, 2] without the padding, and soft tokens."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = processor()(images=image, max_soft_tokens=budget, return_tensors="np")
    positions = made["image_position_ids"][0]
    real = positions[:, 0] >= 0
    assert made["pixel_values"].shape[1] == 9 * budget
    return made["pixel_values"][0][real], positions[real], int(made["num_soft_tokens_per_image"][0])
