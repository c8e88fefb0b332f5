"""Commits early where every first choice is far ahead of its second."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from gesso.diffusion.stopping import STOPPING_RULES, StoppingRule
from gesso.diffusion.top_two import top_two
from gesso.errors import OptionError
from gesso.options import option

if TYPE_CHECKING:
    from gesso.diffusion.prediction import Prediction
    from gesso.diffusion.step import CanvasInfo, StepInfo

OUT_OF_REACH = 1e9
"""A gap that no logits have: scores are soft-capped, and biases bounded far below it."""


@STOPPING_RULES.register("prophet")
@dataclass(frozen=True)
class ProphetRule(StoppingRule):
    """Stops as soon as the likeliest token of a position is on average far enough ahead of the second, as difference of
    their logits (Prophet, arXiv 2508.19982). What is far enough falls from `gap_early` in the first third of the steps
    over the mean of both to `gap_late` in the last third. Pinned positions do not count, nor do those to which a
    constraint leaves one token; what `top_k`, `top_p` and `min_p` leave out does.

    A canvas that is sure is not for that right: this trades accuracy for steps. It reads the distributions of the whole
    canvas, so a step holds their logits.
    """

    reads_log_probs: ClassVar[bool] = True
    gap_early: float = option(7.5, "Mean gap of the two highest logits that ends a canvas early on.", minimum=0)
    gap_late: float = option(2.5, "The same in the last third of the steps.", minimum=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.gap_late > self.gap_early:
            message = f"gap_late must be at most gap_early ({self.gap_early:g}), got {self.gap_late!r}"
            raise OptionError(message, option="gap_late")

    def start(self, canvas: "CanvasInfo") -> None:
        return None

    def should_stop(self, info: "StepInfo", prediction: "Prediction", state: Any) -> tuple[bool, None]:
        first_C, second_C = top_two(prediction, cut=False).unbind(dim=-1)
        gap_C = (first_C - second_C) * info.temperature
        counted_C = gap_C.isfinite()
        if info.held_C is not None:
            counted_C &= ~info.held_C
        gap_C = gap_C[counted_C]
        return len(gap_C) == 0 or gap_C.mean().item() >= self.enough(info.time), None

    def for_every_step(self) -> Mapping[str, Any]:
        return {"gap_early": OUT_OF_REACH, "gap_late": OUT_OF_REACH}

    def enough(self, time: float) -> float:
        """Returns the gap that ends a canvas at a noise level, in logits."""
        if time > 2 / 3:
            return self.gap_early
        return self.gap_late if time <= 1 / 3 else (self.gap_early + self.gap_late) / 2
