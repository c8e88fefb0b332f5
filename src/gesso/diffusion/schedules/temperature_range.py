"""Declares what schedules between two temperatures have in common."""

from dataclasses import dataclass

from gesso.diffusion.schedules import Schedule
from gesso.errors import OptionError
from gesso.options import option


@dataclass(frozen=True)
class TemperatureRange(Schedule):
    """Falls from `t_max` to `t_min` along a curve of its own."""

    t_min: float = option(0.4, "Temperature at the end of the schedule.", minimum=0)
    t_max: float = option(0.8, "Temperature at its start.", above=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.t_max < self.t_min:
            raise OptionError(f"t_max must be at least t_min ({self.t_min}), got {self.t_max!r}", option="t_max")

    def temperature(self, step: int, steps: int) -> float:
        return max(self.t_min + (self.t_max - self.t_min) * self.height(step / steps), COLDEST)

    def height(self, time: float) -> float:
        """Returns the share of the range above `t_min` at `time`, which falls from 1 to 0: 1 at 1, and 0 at 0."""
        raise NotImplementedError


COLDEST = 1e-3
"""Temperatures are above 0, which a curve that reaches `t_min` 0 would not be."""
LEAST = 1e-30
"""The lowest temperature of the published schedules, which go as low as they are told to: logits divided by less would
not be finite."""
