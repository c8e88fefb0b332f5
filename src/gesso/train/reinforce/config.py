"""Configures reinforcement, and says what gives it prompts and rewards."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from gesso.options import checked, option
from gesso.train.option_groups import REWARDS

if TYPE_CHECKING:  # which takes PyTorch, and a command line reads its options from here
    from gesso.engine.prompt import Prompt


@dataclass(frozen=True, slots=True)
class Case:
    """Holds a prompt and what an answer to it is worth."""

    prompt: "Prompt"
    reward: Callable[[str], float]
    """Takes an answer; 1 is right, less is not."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What else the request says, such as tools."""


class Cases(Protocol):
    """Gives prompts as a function of the step alone, so that a resumed run sees the same ones."""

    @property
    def fingerprint(self) -> str:
        """Returns a text that changes when the prompts or rewards do: a run is not resumed on others."""

    def cases(self, step: int, size: int) -> Sequence[Case]:
        """Returns the `size` prompts of step `step` (from 0)."""

    def evaluation(self, limit: int) -> Sequence[Case]:
        """Returns at most `limit` held-out prompts, always the same ones; none where nothing is held out."""


@dataclass(frozen=True, slots=True)
class PolicyConfig:
    """Configures the policy gradient. A step's prompts are the training's `batch_size`, its `micro_batch_size` the
    canvases that are replayed at a time.

    Raises:
        OptionError: an impossible value.
    """

    group_size: int = option(
        8, "Answers drawn to each prompt; a reward counts relative to its group's.", minimum=2, **REWARDS
    )
    kl_weight: float = option(
        0.02,
        "Weight of the KL divergence from the start; 0 leaves it out, and the start's weights out of memory.",
        minimum=0,
        flag="--kl",
        **REWARDS,
    )
    max_new_tokens: int = option(256, "Most tokens of an answer, in whole canvases.", minimum=1, **REWARDS)
    max_denoising_steps: int | None = option(
        None, "Most steps of a canvas.", minimum=1, unset="the checkpoint's own", **REWARDS
    )
    backprop_steps: int = option(
        1,
        "Denoising steps that a gradient goes back through by way of the self-conditioning; 1 takes it as given, as "
        "the released training does.",
        minimum=1,
        **REWARDS,
    )

    def __post_init__(self) -> None:
        checked(self)
