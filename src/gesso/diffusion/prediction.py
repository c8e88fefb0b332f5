"""What one denoising pass says about one canvas, on the host."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class Prediction:
    """Per position of a canvas of C tokens, CPU tensors [C]. A pinned position says its own token, and is certain."""

    sample_C: Tensor
    """Drawn from the tempered distribution, int64."""
    argmax_C: Tensor
    """Its likeliest token, int64."""
    entropy_C: Tensor
    """Its entropy in nats, fp32."""
    confidence_C: Tensor | None = None
    """Probability of the sample in the tempered distribution, fp32; only for a sampler that `reads_confidence`."""
    log_probs: Callable[[slice], Tensor] | None = None
    """Tempered log-probabilities [R, V] of some positions, fp32 on the model's device, made when asked for; only for a
    sampler that `reads_log_probs`. They leave pins aside."""
