"""Commits tokens for good, a quota of them at least; edits a committed one only where another is sure."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from gesso.diffusion.samplers import SAMPLERS, CommittingSampler, draw_noise
from gesso.options import option

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from gesso.diffusion.prediction import Prediction
    from gesso.diffusion.step import StepInfo


@SAMPLERS.register("block_refinement")
@dataclass(frozen=True)
class BlockRefinementSampler(CommittingSampler):
    """Commits every drawn token above the probability `threshold`, and the surest ones where fewer than the canvas's
    share of steps would be committed (LLaDA 2, arXiv 2512.15745; `BlockRefinementScheduler` of diffusers in its mode
    without a mask token). What is not committed becomes uniform noise. Its state is what is committed, bool [C].
    """

    reads_confidence: ClassVar[bool] = True
    threshold: float = option(0.95, "Probability from which a drawn token is accepted.", minimum=0, maximum=1)
    editing_threshold: float | None = option(
        None,
        "Probability above which another token takes the place of a committed one.",
        above=0,
        maximum=1,
        unset="committed tokens stay",
    )

    def step(
        self, info: "StepInfo", canvas_C: "Tensor", prediction: "Prediction", state: "Tensor", rng: "torch.Generator"
    ) -> "tuple[Tensor, Tensor, Tensor]":
        import torch

        confidence_C, sample_C, committed_C = prediction.confidence_C, prediction.sample_C, state
        assert confidence_C is not None
        total = info.canvas.total_steps
        due = -(-(total - info.steps_left) * info.width // total) - int(committed_C.sum())
        ranks_C = confidence_C.masked_fill(committed_C, -1.0).argsort(descending=True, stable=True).argsort()
        taken_C = ~committed_C & ((ranks_C < due) | (confidence_C > self.threshold))
        next_C = torch.where(taken_C, sample_C, canvas_C)
        if self.editing_threshold is not None:
            next_C = torch.where(committed_C & (confidence_C > self.editing_threshold), sample_C, next_C)
        committed_C = committed_C | taken_C
        return torch.where(committed_C, next_C, draw_noise(info.canvas, rng)), committed_C, committed_C
