"""Defines stopping rules, one file each: they end a canvas before its steps are used up.

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
    """Decides after every step whether a canvas is done."""

    reads_log_probs: ClassVar[bool] = False
    """Whether it needs `Prediction.log_probs`, for which a step works on the logits of the canvas."""

    def start(self, canvas: "CanvasInfo") -> Any:
        """Returns the state before the first step. It is called when a canvas is made, and again when that step
        begins."""

    def should_stop(self, info: "StepInfo", prediction: "Prediction", state: Any) -> tuple[bool, Any]:
        """Says whether the canvas ends with this step, and returns the next state. It is called after every step, in
        order.

        Args:
            prediction: its `argmax_C` is what the canvas would commit.
        """

    def for_given_text(self, sure: float) -> Mapping[str, Any]:
        """Returns the rule's options, by name, that suit canvases which start from a text better than its own do.

        Args:
            sure: mean entropy of a position, in nats, below which such a canvas is certain enough.
        """
        return {}

    def for_every_step(self) -> Mapping[str, Any]:
        """Returns the rule's options, by name, under which a canvas takes all of its steps, for whoever measures them.

        A rule that cannot be held off returns none.
        """
        return {}


STOPPING_RULES: Registry[StoppingRule] = Registry("stopping", __name__, "stopping rule")
