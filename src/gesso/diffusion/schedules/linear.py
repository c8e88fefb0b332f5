"""Implements the published schedule."""

from dataclasses import dataclass

from gesso.diffusion.schedules import SCHEDULES
from gesso.diffusion.schedules.temperature_range import LEAST, TemperatureRange


@SCHEDULES.register("linear", default=True)
@dataclass(frozen=True)
class LinearSchedule(TemperatureRange):
    """Follows a line: `t_min + (t_max - t_min) * step / steps`."""

    def temperature(self, step: int, steps: int) -> float:
        return max(self.t_min + (self.t_max - self.t_min) * step / steps, LEAST)
