"""Ends a canvas when the answer in it has settled, whatever the rest still does."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gesso.diffusion.stopping import STOPPING_RULES
from gesso.diffusion.stopping.stable_and_confident import StableAndConfident, settling
from gesso.options import TokenIds, option

if TYPE_CHECKING:
    from torch import Tensor

    from gesso.diffusion.prediction import Prediction
    from gesso.diffusion.step import StepInfo


@STOPPING_RULES.register("answer_region")
@dataclass(frozen=True)
class AnswerRegionRule(StableAndConfident):
    """Stops when the positions of the answer are stable and their own mean entropy is low (the answer region of
    Prophet, arXiv 2508.19982).

    The region begins `region_start` positions behind the last `region_marker` of the likeliest canvas, such as the
    token that ends the reasoning, or behind the canvas's beginning where there is no marker in the options; it has
    `region_length` positions, or goes to the end of the canvas, or of the answer where only that has to settle. While
    the marker is not there, or nothing follows it, the whole canvas has to settle. What stands before the region is
    committed as it is.
    """

    region_marker: tuple[int, ...] = option(
        (), "Tokens behind which the answer begins.", kind=TokenIds(may_be_empty=True)
    )
    region_start: int = option(0, "Where it begins behind them.", minimum=0, unit="positions")
    region_length: int | None = option(None, "Its positions.", minimum=1, unit="positions", unset="to the end")

    def should_stop(
        self, info: "StepInfo", prediction: "Prediction", state: "tuple[Tensor, ...]"
    ) -> "tuple[bool, tuple[Tensor, ...]]":
        region = self.region(prediction.argmax_C, info.canvas.end_tokens)
        if region is None:
            return super().should_stop(info, prediction, state)
        argmax_C = prediction.argmax_C
        stable = len(state) == self.stability_threshold
        stable = stable and all(argmax_C[region].equal(earlier_C[region]) for earlier_C in state)
        kept = (*state, argmax_C)[-self.stability_threshold :] if self.stability_threshold else ()
        return stable and prediction.entropy_C[region].mean().item() < self.confidence_threshold, kept

    def region(self, argmax_C: "Tensor", end_tokens: tuple[int, ...]) -> slice | None:
        """Returns the positions of the answer; None while they are not known."""
        end, marker = settling(argmax_C, end_tokens), list(self.region_marker)
        first = 0
        if marker:
            tokens, size = argmax_C.tolist(), len(marker)
            places = [i for i in range(len(tokens) - size + 1) if tokens[i : i + size] == marker]
            if not places:
                return None
            first = places[-1] + size
        first += self.region_start
        if self.region_length is not None:
            end = min(end, first + self.region_length)
        return slice(first, end) if first < end else None
