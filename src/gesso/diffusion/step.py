"""Describes a canvas and a denoising step to samplers, schedules and stopping rules."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class CanvasShape:
    """Says how many positions a canvas has, and what can stand at each."""

    width: int
    """C, in tokens."""
    vocab_size: int
    """K: token ids are below it."""
    mask_token: int | None = None
    """Token id that noise is; None where noise is uniform over all ids."""
    canvas_length: int | None = None
    """Positions of a whole canvas, where this one may be narrower; None where it is whole."""


@dataclass(frozen=True, slots=True)
class StartTokens:
    """Holds the token ids that a canvas starts from, in the place of noise."""

    tokens: Sequence[int]
    """One for each position."""
    strength: float | None = None
    """Share of them that noise takes the place of; None leaves them as they are."""


@dataclass(frozen=True, slots=True)
class CanvasInfo:
    """Describes a canvas of C positions before its first step. Tensors are on the CPU."""

    width: int
    """C, in tokens."""
    vocab_size: int
    """K: noise is uniform over these ids, where it is no mask."""
    steps: int
    """Denoising steps that the canvas may take."""
    total_steps: int
    """Steps of the schedule; more than `steps` where a given canvas leaves out the hottest ones."""
    start_C: "Tensor | None" = None
    """Token ids to start from, int64; None where the canvas starts from noise."""
    strength: float | None = None
    """Share of `start_C` that noise takes the place of; None leaves it as it is."""
    held_C: "Tensor | None" = None
    """Pinned positions, bool; None where there are none. They hold their tokens whatever a sampler puts there.
    In a step of a canvas of masks all that are no masks are among them."""
    end_tokens: tuple[int, ...] = ()
    """Token ids that end the answer, where only what stands up to the first of them has to settle."""
    mask_token: int | None = None
    """Token id that noise is; None where noise is uniform."""
    canvas_length: int | None = None
    """Positions of a whole canvas, where this one may be narrower; None where it is whole."""
    sampling_temperature: float = 1.0
    """What the request multiplies the schedule's temperature by where it draws tokens; 0 takes the likeliest."""


@dataclass(frozen=True, slots=True)
class StepInfo:
    """Describes one denoising step of a canvas."""

    canvas: CanvasInfo
    step: int
    """Counted from 1."""
    temperature: float
    """The schedule's temperature of this step."""

    @property
    def steps_left(self) -> int:
        """Returns the number of steps that may follow; 0 at the last one."""
        return self.canvas.steps - self.step

    @property
    def time(self) -> float:
        """Returns the noise level before this step: 1 where the schedule begins; `time_after` is 0 at its end."""
        return (self.steps_left + 1) / self.canvas.total_steps

    @property
    def time_after(self) -> float:
        """Returns the noise level that this step leads to."""
        return self.steps_left / self.canvas.total_steps

    @property
    def width(self) -> int:
        return self.canvas.width

    @property
    def vocab_size(self) -> int:
        return self.canvas.vocab_size

    @property
    def held_C(self) -> "Tensor | None":
        return self.canvas.held_C
