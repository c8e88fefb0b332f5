"""Implements a schedule that cools by the same factor in every step."""

from dataclasses import dataclass

from gesso.diffusion.schedules import SCHEDULES
from gesso.diffusion.schedules.temperature_range import LEAST, TemperatureRange
from gesso.errors import OptionError


@SCHEDULES.register("geometric")
@dataclass(frozen=True)
class GeometricSchedule(TemperatureRange):
    """Follows `t_min^(1 - t) * t_max^t`; `t_min` must be above 0."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.t_min == 0:
            raise OptionError("t_min must be above 0 for the schedule geometric, got 0", option="t_min")

    def temperature(self, step: int, steps: int) -> float:
        time: float = step / steps
        result: float = self.t_min ** (1 - time) * self.t_max**time
        return max(result, LEAST)
