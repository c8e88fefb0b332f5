"""Commits a quota of positions a step, the surest ones or the first ones, and more where they are sure enough."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from gesso.diffusion.samplers import SAMPLERS, CommittingSampler, draw_noise
from gesso.options import option

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from gesso.diffusion.prediction import Prediction
    from gesso.diffusion.step import StepInfo


@SAMPLERS.register("low_confidence")
@dataclass(frozen=True)
class LowConfidenceSampler(CommittingSampler):
    """Commits for good, in every step, its share of the canvas (SDAR, arXiv 2510.06303; LLaDA, arXiv 2502.09992).

    `dynamic` commits every open position whose drawn token has more than the probability `threshold`, where these are
    as many as the step's share, and else the share's surest; `static` the share's surest always; `sequential` the
    first ones. The length of a whole canvas is divided evenly over the steps, and earlier steps take what is left
    over; the last step commits all that is open. What is not committed is noise. Its state is what is committed,
    bool [C].
    """

    reads_confidence: ClassVar[bool] = True
    remasking_strategy: Literal["dynamic", "static", "sequential"] = option(
        "dynamic", "Which positions a step commits: all above the threshold, a quota of the surest, or the first ones."
    )
    threshold: float = option(
        0.85,
        "Probability from which a drawn token is accepted.",
        minimum=0,
        maximum=1,
        needs=("remasking_strategy", "dynamic"),
    )

    def step(
        self, info: "StepInfo", canvas_C: "Tensor", prediction: "Prediction", state: "Tensor", rng: "torch.Generator"
    ) -> "tuple[Tensor, Tensor, Tensor]":
        import torch

        confidence_C = prediction.confidence_C
        assert confidence_C is not None
        committed_C = state if info.held_C is None else state | info.held_C
        open_C = ~committed_C
        left = int(open_C.sum())
        count = min(self.quota(info), left) if info.steps_left else left
        taken_C = torch.zeros_like(open_C)
        if self.remasking_strategy == "sequential":
            taken_C[open_C.nonzero()[:count, 0]] = True
        else:
            sure_C = confidence_C.masked_fill(committed_C, -1.0)
            taken_C[sure_C.argsort(descending=True, stable=True)[:count]] = True
            above_C = open_C & (confidence_C > self.threshold)
            if self.remasking_strategy == "dynamic" and int(above_C.sum()) >= count:
                taken_C = above_C
        next_C = torch.where(taken_C, prediction.sample_C, canvas_C)
        committed_C = committed_C | taken_C
        return torch.where(committed_C, next_C, draw_noise(info.canvas, rng)), committed_C, committed_C

    def quota(self, info: "StepInfo") -> int:
        """Returns the positions that a step commits at least, while there are so many."""
        total = info.canvas.total_steps
        share, left_over = divmod(info.canvas.canvas_length or info.width, total)
        return share + (total - info.steps_left - 1 < left_over)
