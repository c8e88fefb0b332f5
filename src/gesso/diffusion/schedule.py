"""Temperature schedules. Steps are counted down: the first of a canvas is N, the last is 1."""

from dataclasses import dataclass
from typing import Protocol


class Schedule(Protocol):
    """Temperature of a denoising step."""

    def temperature(self, step: int) -> float:
        """Temperature of step `step`, counted down from the number of steps to 1."""


@dataclass(frozen=True, slots=True)
class LinearSchedule:
    """`t_min + (t_max - t_min) * step / max_denoising_steps`."""

    t_min: float
    t_max: float
    max_denoising_steps: int

    def temperature(self, step: int) -> float:
        return self.t_min + (self.t_max - self.t_min) * step / self.max_denoising_steps
