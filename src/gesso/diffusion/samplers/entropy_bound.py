"""Implements the published sampler: it accepts positions that are certain together, and draws the others anew."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gesso.diffusion.samplers import SAMPLERS, Sampler, draw_noise
from gesso.options import option

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from gesso.diffusion.prediction import Prediction
    from gesso.diffusion.step import StepInfo


@SAMPLERS.register("entropy_bound", default=True)
@dataclass(frozen=True)
class EntropyBoundSampler(Sampler):
    """Accepts the surest positions while their joint uncertainty stays bounded (arXiv 2505.24857).

    In order of entropy, a position is accepted while the entropies before it, its own excluded, sum to at most
    `entropy_bound` nats; so the surest one always is. All others become uniform noise. It remembers nothing: what one
    step accepted, the next one may take back.
    """

    entropy_bound: float = option(0.1, "Joint uncertainty that a step may accept.", minimum=0, unit="nats")

    def step(
        self,
        info: "StepInfo",
        canvas_C: "Tensor",
        prediction: "Prediction",
        state: Any,
        rng: "torch.Generator",
    ) -> "tuple[Tensor, Tensor, None]":
        accepted_C = self.accept(prediction)
        return prediction.sample_C.where(accepted_C, draw_noise(info.canvas, rng)), accepted_C, None

    def accept(self, prediction: "Prediction") -> "Tensor":
        """Returns the accepted positions, bool [C]."""
        import torch

        entropy_C, order_C = prediction.entropy_C.sort(stable=True)
        accepted_C = torch.empty_like(order_C, dtype=torch.bool)
        accepted_C[order_C] = entropy_C.cumsum(0) - entropy_C <= self.entropy_bound
        return accepted_C
