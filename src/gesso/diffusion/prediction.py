"""Holds what one denoising pass predicts for one canvas, on the host."""

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor


class LogProbs(Protocol):
    """Gives the tempered distributions of some positions when it is asked for them."""

    def __call__(self, rows: slice, /, cut: bool = True) -> Tensor:
        """Returns log-probabilities [R, V], nats, fp32 on the model's device.

        Args:
            cut: whether tokens that `top_k`, `top_p` and `min_p` leave out are impossible.
        """


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
    log_probs: LogProbs | None = None
    """Tempered log-probabilities; only for a sampler or a stopping rule that `reads_log_probs`. They leave pins
    aside."""
