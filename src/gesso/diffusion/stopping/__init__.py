"""Stopping rules: when a canvas is done before its steps are used up. One file each.

A rule is a frozen dataclass whose fields are its options; what it remembers of a canvas is what `start` and
`should_stop` return and get back.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from gesso.options import Registry, Strategy

if TYPE_CHECKING:
    from gesso.diffusion.prediction import Prediction
    from gesso.diffusion.step import CanvasInfo, StepInfo


class StoppingRule(Strategy, Protocol):
    """Watches a canvas."""

    reads_log_probs: ClassVar[bool] = False
    """Whether it needs `Prediction.log_probs`, for which a step works on the logits of the canvas."""

    def start(self, canvas: "CanvasInfo") -> Any:
        """The state before the first step."""

    def should_stop(self, info: "StepInfo", prediction: "Prediction", state: Any) -> tuple[bool, Any]:
        """Whether the canvas ends with this step, and the next state. It is asked after every step, in order."""

    def for_given_text(self, sure: float) -> Mapping[str, Any]:
        """Its options that suit canvases which start from a text better than its own do, by name.

        Args:
            sure: mean entropy of a position, in nats, below which such a canvas is sure enough.
        """
        return {}


STOPPING_RULES: Registry[StoppingRule] = Registry("stopping", __name__, "stopping rule")
