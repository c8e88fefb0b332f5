"""Holds what one denoising pass predicts for one canvas, on the host."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class Prediction:
    """Holds the prediction for each position of a canvas of C tokens, as CPU tensors [C]. A pinned position predicts
    its own token, with entropy 0."""

    sample_C: Tensor
    """Token drawn from the tempered distribution, int64."""
    argmax_C: Tensor
    """Likeliest token, int64."""
    entropy_C: Tensor
    """Entropy in nats, fp32."""
    confidence_C: Tensor | None = None
    """Probability of the sample in the tempered distribution, fp32; only for a sampler that `reads_confidence`."""
    log_probs: Callable[[slice], Tensor] | None = None
    """Tempered log-probabilities [R, V] of some positions, fp32 on the model's device, made when asked for; only for a
    sampler that `reads_log_probs`. They leave pins aside."""
