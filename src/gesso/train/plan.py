"""Says how a checkpoint is fine-tuned, beside what every optimisation says."""

from dataclasses import dataclass
from typing import Literal

from gesso.options import checked, option
from gesso.train.option_groups import CANVASES, IN_CODE, TRAINING

Method = Literal["lora", "qlora", "full"]


@dataclass(frozen=True, slots=True)
class Plan:
    """Says how long to train, and on what of a step at a time.

    Raises:
        OptionError: an impossible value.
    """

    method: Method = option(
        "lora", "lora trains an adapter, qlora one over 4-bit weights, full all weights.", **TRAINING
    )
    epochs: float = option(3.0, "Times that each example is seen.", above=0, **TRAINING)
    steps: int | None = option(None, "Optimiser steps, instead of epochs.", minimum=1, **TRAINING)
    learning_rate: float | None = option(
        None,
        "Highest learning rate. Without it 2e-4, or 2e-5 with full; 3e-3 and 3e-4 below 30 million parameters; a run "
        "that goes on keeps its own.",
        above=0,
        **TRAINING,
    )
    warmup_share: float = option(
        0.05, "Share of all steps in which the learning rate rises.", minimum=0, maximum=1, **IN_CODE
    )
    own_drafts: float = option(
        0.0,
        "Share of the canvases that are drafts of the model's own, for it to correct.",
        minimum=0,
        maximum=1,
        **CANVASES,
    )
    source_share: float | None = option(
        None,
        "Of pairs with a source, canvases that start from it, the text that is changed.",
        minimum=0,
        maximum=1,
        unset="0.5",
        **CANVASES,
    )
    distill: float | None = option(
        None,
        "Learn to need fewer steps: say at a noise level what the start says so much below, 1 being all noise, and not "
        "what the data says.",
        above=0,
        maximum=1,
        **CANVASES,
    )
    causal_only: bool | None = option(
        None,
        "Leave the canvases out: the causal pass alone learns; on for models that write token by token, where no "
        "setting of canvases is given.",
        flag="--*/--no-*",
        **CANVASES,
    )

    def __post_init__(self) -> None:
        checked(self)
