"""Accepts where the first choice is well ahead of the second."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from gesso.diffusion.samplers import SAMPLERS, Sampler, accept_from, draw_noise
from gesso.diffusion.top_two import top_two
from gesso.options import option

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from gesso.diffusion.prediction import Prediction
    from gesso.diffusion.step import StepInfo


@SAMPLERS.register("margin")
@dataclass(frozen=True)
class MarginSampler(Sampler):
    """Accepts every position whose likeliest token is at least `margin` more probable than its second, and the clearest
    free one in any case (top-k margin of arXiv 2502.06768, with a threshold). All others become uniform noise.

    It reads the distributions of the whole canvas, so a step holds their logits.
    """

    reads_log_probs: ClassVar[bool] = True
    margin: float = option(
        0.8, "Probability by which the likeliest token of a position is ahead of the second.", minimum=0, maximum=1
    )

    def step(
        self, info: "StepInfo", canvas_C: "Tensor", prediction: "Prediction", state: Any, rng: "torch.Generator"
    ) -> "tuple[Tensor, Tensor, None]":
        accepted_C = accept_from(self.margin, margins(prediction), info.held_C)
        return prediction.argmax_C.where(accepted_C, draw_noise(info.canvas, rng)), accepted_C, None


def margins(prediction: "Prediction") -> "Tensor":
    """Returns how much more probable the likeliest token of each position is than the second, fp32 [C] on the CPU."""
    first_C, second_C = top_two(prediction).exp().unbind(dim=-1)
    return first_C - second_C
