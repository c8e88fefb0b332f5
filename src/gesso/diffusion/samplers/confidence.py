"""Accepts what is likely enough: parallel decoding by a threshold of confidence."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from gesso.diffusion.samplers import SAMPLERS, Sampler, accept_from, draw_noise
from gesso.options import option

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from gesso.diffusion.prediction import Prediction
    from gesso.diffusion.step import StepInfo


@SAMPLERS.register("confidence")
@dataclass(frozen=True)
class ConfidenceSampler(Sampler):
    """Accepts every position whose drawn token has at least the probability `threshold`, and the surest free one
    in any case (Fast-dLLM, arXiv 2505.22618). All others become uniform noise; nothing is remembered."""

    reads_confidence: ClassVar[bool] = True
    threshold: float = option(0.9, "Probability from which a drawn token is accepted.", minimum=0, maximum=1)

    def step(
        self, info: "StepInfo", canvas_C: "Tensor", prediction: "Prediction", state: Any, rng: "torch.Generator"
    ) -> "tuple[Tensor, Tensor, None]":
        assert prediction.confidence_C is not None
        accepted_C = accept_from(self.threshold, prediction.confidence_C, info.held_C)
        return prediction.sample_C.where(accepted_C, draw_noise(info.canvas, rng)), accepted_C, None
