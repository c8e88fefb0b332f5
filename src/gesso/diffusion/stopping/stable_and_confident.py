"""Implements the published stopping rule."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gesso.diffusion.stopping import STOPPING_RULES, StoppingRule
from gesso.options import option

if TYPE_CHECKING:
    from torch import Tensor

    from gesso.diffusion.prediction import Prediction
    from gesso.diffusion.step import CanvasInfo, StepInfo


@STOPPING_RULES.register("stable_and_confident", default=True)
@dataclass(frozen=True)
class StableAndConfident(StoppingRule):
    """Stops when the argmax canvas is stable and the mean entropy is low.

    Stable: `stability_threshold` + 1 argmax canvases in a row are equal. Low: the mean entropy of a position is below
    `confidence_threshold` nats. Where `end_tokens` are given, what stands behind the first of them may change and
    counts as certain. Its state is the argmax canvases of the last `stability_threshold` steps.
    """

    stability_threshold: int = option(1, "Equal argmax canvases before the last one that stopping takes.", minimum=0)
    confidence_threshold: float = option(
        0.005, "Mean entropy of a position that stopping takes less of.", minimum=0, unit="nats"
    )

    def start(self, canvas: "CanvasInfo") -> "tuple[Tensor, ...]":
        return ()

    def should_stop(
        self, info: "StepInfo", prediction: "Prediction", state: "tuple[Tensor, ...]"
    ) -> "tuple[bool, tuple[Tensor, ...]]":
        argmax_C = prediction.argmax_C
        counted = slice(0, settling(argmax_C, info.canvas.end_tokens))
        stable = len(state) == self.stability_threshold
        stable = stable and all(argmax_C[counted].equal(earlier_C[counted]) for earlier_C in state)
        doubt = prediction.entropy_C[counted].sum().item() / len(argmax_C)
        kept = (*state, argmax_C)[-self.stability_threshold :] if self.stability_threshold else ()
        return stable and doubt < self.confidence_threshold, kept

    def for_given_text(self, sure: float) -> Mapping[str, Any]:
        # What starts from a text need not be seen twice to be stable, and it is as often right when it is less sure.
        return {"stability_threshold": 0, "confidence_threshold": max(self.confidence_threshold, sure)}

    def for_every_step(self) -> Mapping[str, Any]:
        # No mean entropy is below 0.
        return {"confidence_threshold": 0.0}


def settling(argmax_C: "Tensor", end_tokens: tuple[int, ...]) -> int:
    """Returns how many positions have to settle."""
    if end_tokens:
        import torch

        ends = torch.isin(argmax_C, torch.tensor(end_tokens)).nonzero()
        if len(ends):
            return int(ends[0]) + 1
    return len(argmax_C)
