"""Samples the uniform corruption ancestrally: each position becomes clean, stays or becomes noise."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from gesso.diffusion.noise_levels import NoiseLevels
from gesso.diffusion.samplers import SAMPLERS, Sampler, draw_noise

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from gesso.diffusion.prediction import Prediction
    from gesso.diffusion.step import StepInfo

CLEAN, STAY, NOISE = 0, 1, 2
"""Routes of a position: it takes the drawn token, keeps what it holds, or takes a random token."""


@SAMPLERS.register("discrete_ddim")
@dataclass(frozen=True)
class DiscreteDDIMSampler(NoiseLevels, Sampler):
    """Draws the next canvas from the posterior of the uniform corruption, given the drawn tokens as the clean ones
    (D3PM, arXiv 2107.03006; `DiscreteDDIMScheduler` of diffusers). The last step commits the drawn tokens, so its
    answer is a sample where the published sampler's is the likeliest canvas."""

    fits_masks: ClassVar[bool] = False

    def step(
        self, info: "StepInfo", canvas_C: "Tensor", prediction: "Prediction", state: Any, rng: "torch.Generator"
    ) -> "tuple[Tensor, Tensor, Any]":
        next_C = self.predict(info, canvas_C, prediction.sample_C, info.time, info.time_after, rng)
        return next_C, next_C == prediction.sample_C, state

    def predict(
        self,
        info: "StepInfo",
        canvas_C: "Tensor",
        sample_C: "Tensor",
        time: float,
        time_after: float,
        rng: "torch.Generator",
    ) -> "Tensor":
        """Returns the canvas at `time_after`, int64 [C], of the one at `time`."""
        import torch

        routes_C3 = route_probabilities(
            canvas_C == sample_C, self.alpha(time), self.alpha_after(time_after), vocab_size=info.vocab_size
        )
        route_C = torch.multinomial(routes_C3, 1, generator=rng)[:, 0]
        next_C = torch.where(route_C == CLEAN, sample_C, canvas_C)
        return torch.where(route_C == NOISE, draw_noise(info.canvas, rng), next_C)

    def output(self, info: "StepInfo", canvas_C: "Tensor", prediction: "Prediction", state: Any) -> "Tensor":
        return canvas_C if info.steps_left == 0 else prediction.argmax_C


def route_probabilities(same_C: "Tensor", alpha: float, alpha_after: float, *, vocab_size: int) -> "Tensor":
    """Returns the probabilities of the routes clean, stay and noise, fp32 [C, 3].

    Args:
        same_C: where the canvas holds the token that is taken for clean, bool.
        alpha: probability that a token of the canvas is clean.
        alpha_after: the same of the next canvas, which is less noisy; above 0.
    """
    import torch

    survival = alpha / alpha_after
    clean_C = alpha_after * (1 - survival) / vocab_size + survival * alpha_after * same_C.float()
    stay = survival * (1 - alpha_after) / vocab_size
    noise = (1 - survival) * (1 - alpha_after) / vocab_size
    mass_C3 = torch.stack((clean_C, torch.full_like(clean_C, stay), torch.full_like(clean_C, noise)), dim=-1)
    return mass_C3 / mass_C3.sum(dim=-1, keepdim=True)
