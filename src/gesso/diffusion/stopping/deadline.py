"""Gives every canvas so much time, and no more."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gesso.diffusion.stopping import STOPPING_RULES
from gesso.diffusion.stopping.stable_and_confident import StableAndConfident
from gesso.options import option

if TYPE_CHECKING:
    from gesso.diffusion.prediction import Prediction
    from gesso.diffusion.step import CanvasInfo, StepInfo

FOR_EVER = 1e9
"""Seconds that no canvas takes."""


@STOPPING_RULES.register("deadline")
@dataclass(frozen=True)
class DeadlineRule(StableAndConfident):
    """Stops as `stable_and_confident` does, and with the first step that ends `canvas_seconds` or more after the first
    one began. By the clock, so an answer that it cuts short is not reproduced by its seed."""

    canvas_seconds: float = option(1.0, "Time that the steps of a canvas may take.", above=0, unit="s")

    def start(self, canvas: "CanvasInfo") -> Any:
        return time.monotonic() + self.canvas_seconds, super().start(canvas)

    def should_stop(self, info: "StepInfo", prediction: "Prediction", state: Any) -> tuple[bool, Any]:
        end, settled = state
        stops, settled = super().should_stop(info, prediction, settled)
        return stops or time.monotonic() >= end, (end, settled)

    def for_every_step(self) -> Mapping[str, Any]:
        return {**super().for_every_step(), "canvas_seconds": FOR_EVER}
