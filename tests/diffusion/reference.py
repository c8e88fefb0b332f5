"""The published sampler, stopping rule and schedule as `transformers` has them, imported quietly."""

import warnings
from typing import Any

import torch
from torch import Tensor

from gesso.diffusion.prediction import Prediction


def reference() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from transformers.models.diffusion_gemma import generation_diffusion_gemma

    return generation_diffusion_gemma


def entropy(logits: Tensor) -> Tensor:
    return torch.distributions.Categorical(logits=logits).entropy()


def prediction(logits_CV: Tensor) -> Prediction:
    """What a pass says whose tempered logits are these; the sample is not looked at."""
    best = logits_CV.argmax(dim=-1)
    return Prediction(best, best, entropy(logits_CV))


def random_logits(seed: int, positions: int, vocab: int, sharpness: float) -> Tensor:
    return sharpness * torch.randn(positions, vocab, generator=torch.Generator().manual_seed(seed))
