"""Accepts a scheduled number of the surest positions."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from gesso.diffusion.noise_levels import NoiseLevels
from gesso.diffusion.samplers import SAMPLERS, Sampler, draw_noise
from gesso.options import option

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from gesso.diffusion.prediction import Prediction
    from gesso.diffusion.step import StepInfo


@SAMPLERS.register("maskgit")
@dataclass(frozen=True)
class MaskGITSampler(NoiseLevels, Sampler):
    """Accepts as many of the surest positions as the noise schedule asks to be clean after the step, and all of them at
    the last one (MaskGIT, arXiv 2202.04200; LLaDA, arXiv 2502.09992). The others become uniform noise instead of masks.

    Sure is, by `order`, who drew a probable token, or whose entropy is low; or positions are taken at random.
    """

    reads_confidence: ClassVar[bool] = True
    order: Literal["confidence", "entropy", "random"] = option(
        "confidence", "Which positions are accepted first: by probability of the drawn token, entropy, or at random."
    )
    order_temperature: float = option(
        0.0,
        "Gumbel noise on the logarithm of what positions are ordered by, times the noise level.",
        minimum=0,
        needs=("order", "confidence", "entropy"),
    )

    def step(
        self, info: "StepInfo", canvas_C: "Tensor", prediction: "Prediction", state: Any, rng: "torch.Generator"
    ) -> "tuple[Tensor, Tensor, None]":
        import torch

        sure_C = self._sureness(prediction, rng)
        if self.order_temperature:
            uniform_C = torch.rand(info.width, generator=rng).clamp(1e-12, 1 - 1e-7)
            sure_C = sure_C - self.order_temperature * info.time_after * (-uniform_C.log()).log()
        if info.held_C is not None:
            sure_C = sure_C.masked_fill(info.held_C, math.inf)
        # Rounded, because a product such as 0.29 x 100 may fall short of its whole number.
        count = max(1, math.ceil(round(info.width * self.alpha(info.time_after), 6)))
        accepted_C = torch.zeros(info.width, dtype=torch.bool)
        accepted_C[sure_C.argsort(descending=True, stable=True)[:count]] = True
        return prediction.sample_C.where(accepted_C, draw_noise(info.canvas, rng)), accepted_C, None

    def _sureness(self, prediction: "Prediction", rng: "torch.Generator") -> "Tensor":
        import torch

        if self.order == "random":
            return torch.rand(len(prediction.sample_C), generator=rng)
        if self.order == "entropy":
            return -prediction.entropy_C
        assert prediction.confidence_C is not None
        return prediction.confidence_C.log()
