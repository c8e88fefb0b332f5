"""Chooses the positions first, and then what becomes of them: clean, stay or noise."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from gesso.diffusion.noise_levels import NoiseLevels
from gesso.diffusion.samplers import SAMPLERS, Sampler, draw_noise
from gesso.diffusion.samplers.entropy_bound import EntropyBoundSampler
from gesso.options import option

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from gesso.diffusion.prediction import Prediction
    from gesso.diffusion.step import StepInfo


@SAMPLERS.register("planner")
@dataclass(frozen=True)
class PlannerSampler(NoiseLevels, Sampler):
    """Lets a planner choose which positions become clean, and gives every other one a route of its own.

    The planner `greedy` takes as many of the surest positions, by entropy, as the noise schedule asks to be clean after
    the step; `entropy_bound` takes them while their joint entropy stays bounded. Of the others each stays as it is or
    becomes noise: all of them one way, or by the odds that the uniform corruption gives a token which is not clean
    (`rest` posterior: it stays with probability alpha_t / alpha_s).
    """

    planner: Literal["greedy", "entropy_bound"] = option("greedy", "How the positions that become clean are chosen.")
    entropy_bound: float = option(
        0.1, "Joint uncertainty that a step may accept.", minimum=0, unit="nats", needs=("planner", "entropy_bound")
    )
    rest: Literal["posterior", "noise", "stay"] = option("posterior", "What becomes of the positions not chosen.")

    def step(
        self, info: "StepInfo", canvas_C: "Tensor", prediction: "Prediction", state: Any, rng: "torch.Generator"
    ) -> "tuple[Tensor, Tensor, None]":
        import torch

        clean_C = self._plan(info, prediction)
        survival = self.alpha(info.time) / self.alpha_after(info.time_after)
        stays = {"posterior": survival, "noise": 0.0, "stay": 1.0}[self.rest]
        stay_C = torch.rand(info.width, generator=rng) < stays
        next_C = torch.where(stay_C, canvas_C, draw_noise(info.canvas, rng))
        return torch.where(clean_C, prediction.sample_C, next_C), clean_C, None

    def _plan(self, info: "StepInfo", prediction: "Prediction") -> "Tensor":
        import torch

        if self.planner == "entropy_bound":
            return EntropyBoundSampler(self.entropy_bound).accept(prediction)
        count = max(1, math.ceil(round(info.width * self.alpha(info.time_after), 6)))
        clean_C = torch.zeros(info.width, dtype=torch.bool)
        clean_C[prediction.entropy_C.argsort(stable=True)[:count]] = True
        return clean_C
