"""Lets a canvas take all of its steps."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gesso.diffusion.stopping import STOPPING_RULES, StoppingRule

if TYPE_CHECKING:
    from gesso.diffusion.prediction import Prediction
    from gesso.diffusion.step import CanvasInfo, StepInfo


@STOPPING_RULES.register("last_step")
@dataclass(frozen=True)
class LastStep(StoppingRule):
    """Ends a canvas with its last step alone; one of masks ends, under every rule, when none of them is left."""

    def start(self, canvas: "CanvasInfo") -> None:
        return None

    def should_stop(self, info: "StepInfo", prediction: "Prediction", state: None) -> tuple[bool, None]:
        return False, None
