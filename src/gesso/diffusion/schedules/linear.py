"""Implements the published schedule."""

from dataclasses import dataclass

from gesso.diffusion.schedules import SCHEDULES, Schedule
from gesso.errors import OptionError
from gesso.options import option


@SCHEDULES.register("linear", default=True)
@dataclass(frozen=True)
class LinearSchedule(Schedule):
    """Falls linearly: `t_min + (t_max - t_min) * step / steps`."""

    t_min: float = option(0.4, "Temperature at the end of the schedule.", minimum=0)
    t_max: float = option(0.8, "Temperature at its start.", above=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.t_max < self.t_min:
            raise OptionError(f"t_max must be at least t_min ({self.t_min}), got {self.t_max!r}", option="t_max")

    def temperature(self, step: int, steps: int) -> float:
        return self.t_min + (self.t_max - self.t_min) * step / steps
