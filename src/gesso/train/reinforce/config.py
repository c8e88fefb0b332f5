"""Configures reinforcement, and says what gives it prompts and rewards."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from gesso.engine.prompt import Prompt
from gesso.errors import OptionError


@dataclass(frozen=True, slots=True)
class Case:
    """Holds a prompt and what an answer to it is worth."""

    prompt: Prompt
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
    canvases that are replayed at a time."""

    group_size: int = 8
    """Answers drawn to each prompt; a reward counts relative to its group's."""
    kl_weight: float = 0.02
    """Weight of the KL divergence from the start; 0 leaves it out, and the start's weights out of memory."""
    max_new_tokens: int = 256
    """Most tokens of an answer, in whole canvases."""
    max_denoising_steps: int | None = None
    """Steps that a canvas may take; None is the checkpoint's own number."""
    backprop_steps: int = 1
    """Denoising steps that a gradient goes back through by way of the self-conditioning; 1 takes it as given, as the
    released training does."""

    def __post_init__(self) -> None:
        for name, least in (
            ("group_size", 2),
            ("max_new_tokens", 1),
            ("max_denoising_steps", 1),
            ("backprop_steps", 1),
        ):
            if (value := getattr(self, name)) is not None and value < least:
                raise OptionError(f"{name} must be at least {least}, got {value}", option=name)
        if not 0 <= self.kl_weight < float("inf"):
            raise OptionError(f"kl_weight must be at least 0 and finite, got {self.kl_weight:g}", option="kl_weight")
