"""The published sampler, stopping rule and schedule as `transformers` has them, imported quietly."""

import warnings
from typing import Any

import torch
from torch import Tensor

from gesso.diffusion.prediction import Prediction
from gesso.diffusion.step import CanvasInfo, StepInfo


def reference() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from transformers.models.diffusion_gemma import generation_diffusion_gemma

    return generation_diffusion_gemma


def diffusers() -> Any:
    """The schedulers of diffusers, another reference."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import diffusers

    return diffusers


def step_info(step: int, steps: int, width: int, vocab: int) -> StepInfo:
    """Step `step`, counted from 1, of `steps`."""
    return StepInfo(CanvasInfo(width, vocab, steps, steps), step, 1.0)


def entropy(logits: Tensor) -> Tensor:
    return torch.distributions.Categorical(logits=logits).entropy()


def prediction(logits_CV: Tensor) -> Prediction:
    """What a pass says whose tempered logits are these, at temperature 0 of the request: the sample is the argmax."""
    best, log_probs_CV = logits_CV.argmax(dim=-1), logits_CV.log_softmax(dim=-1)
    confidence = logits_CV.softmax(dim=-1).gather(1, best[:, None])[:, 0]
    return Prediction(best, best, entropy(logits_CV), confidence, lambda rows, cut=True: log_probs_CV[rows])


def random_logits(seed: int, positions: int, vocab: int, sharpness: float) -> Tensor:
    return sharpness * torch.randn(positions, vocab, generator=torch.Generator().manual_seed(seed))
