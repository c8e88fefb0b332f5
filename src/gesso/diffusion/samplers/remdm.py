"""Decodes positions at random, and re-noises some decoded ones."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from gesso.diffusion.noise_levels import NoiseLevels
from gesso.diffusion.samplers import SAMPLERS, CommittingSampler, draw_noise, start_canvas
from gesso.options import option

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from gesso.diffusion.prediction import Prediction
    from gesso.diffusion.step import CanvasInfo, StepInfo


@SAMPLERS.register("remdm")
@dataclass(frozen=True)
class ReMDMSampler(NoiseLevels, CommittingSampler):
    """Decodes every open position with the probability that the noise schedule gives, and opens a decoded one again
    with the probability sigma (ReMDM, arXiv 2503.00307), with uniform noise in the place of masks.

    sigma is at most (1 - alpha_s) / alpha_t: `max_capped` caps it at `remasking`, `rescaled` multiplies it by that;
    with `none` nothing is taken back (arXiv 2406.04329). Its state is what is decoded, bool [C].
    """

    remasks: ClassVar[bool] = True
    remasking_schedule: Literal["max_capped", "rescaled", "none"] = option(
        "max_capped", "How the probability that a decoded position becomes noise again is bounded."
    )
    remasking: float = option(
        0.05,
        "Cap or factor of that probability.",
        minimum=0,
        maximum=1,
        needs=("remasking_schedule", "max_capped", "rescaled"),
    )

    def start(self, canvas: "CanvasInfo", rng: "torch.Generator") -> "tuple[Tensor, Tensor]":
        import torch

        first_C = start_canvas(canvas, rng)
        decoded_C = torch.zeros(canvas.width, dtype=torch.bool)
        if canvas.start_C is not None and canvas.total_steps > canvas.steps:
            decoded_C = first_C == canvas.start_C
        return first_C, decoded_C

    def step(
        self, info: "StepInfo", canvas_C: "Tensor", prediction: "Prediction", state: "Tensor", rng: "torch.Generator"
    ) -> "tuple[Tensor, Tensor, Tensor]":
        import torch

        alpha, alpha_after = self.alpha(info.time), self.alpha(info.time_after)
        sigma = self.sigma(alpha, alpha_after)
        decode = (alpha_after - (1 - sigma) * alpha) / (1 - alpha)
        uniform_C = torch.rand(info.width, generator=rng)
        opened_C = state & (uniform_C < sigma)
        taken_C = ~state & (uniform_C < decode)
        next_C = torch.where(taken_C, prediction.sample_C, canvas_C)
        decoded_C = (state & ~opened_C) | taken_C
        return torch.where(decoded_C, next_C, draw_noise(info.canvas, rng)), decoded_C, decoded_C

    def sigma(self, alpha: float, alpha_after: float) -> float:
        """Returns the probability that a decoded position becomes noise again.

        Args:
            alpha, alpha_after: share of clean tokens before and after the step.
        """
        if self.remasking_schedule == "none" or alpha == 0:
            return 0.0
        most = min((1 - alpha_after) / alpha, 1.0)
        return min(most, self.remasking) if self.remasking_schedule == "max_capped" else most * self.remasking
