"""Ends a canvas as soon as its text is accepted from outside. No option names it: a request brings what accepts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from gesso.diffusion.stopping import StoppingRule

if TYPE_CHECKING:
    from gesso.diffusion.prediction import Prediction
    from gesso.diffusion.step import CanvasInfo, StepInfo


@dataclass(frozen=True)
class AcceptingRule(StoppingRule):
    """Stops as another rule does, and before it where what the canvas would commit is accepted."""

    rule: StoppingRule
    accepts: Callable[[Any], bool]
    """Takes the tokens that the canvas would commit, int64 [C]."""
    label: ClassVar[str] = "accepting"

    @property
    def reads_log_probs(self) -> bool:  # type: ignore[override]
        return self.rule.reads_log_probs

    def start(self, canvas: "CanvasInfo") -> Any:
        return self.rule.start(canvas)

    def should_stop(self, info: "StepInfo", prediction: "Prediction", state: Any) -> tuple[bool, Any]:
        stops, state = self.rule.should_stop(info, prediction, state)
        return stops or self.accepts(prediction.argmax_C), state

    def for_given_text(self, sure: float) -> Mapping[str, Any]:
        return self.rule.for_given_text(sure)

    def for_every_step(self) -> Mapping[str, Any]:
        return self.rule.for_every_step()
