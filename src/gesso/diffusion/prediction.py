"""What one denoising pass says about one canvas, on the host."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class Prediction:
    """Per position of a canvas of C tokens, all CPU tensors [C]."""

    sample_C: Tensor
    """Drawn from the tempered distribution, int64."""
    argmax_C: Tensor
    """Its likeliest token, int64."""
    entropy_C: Tensor
    """Its entropy in nats, fp32."""
