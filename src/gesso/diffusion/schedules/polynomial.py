"""Implements a schedule that cools along a power of the time."""

from dataclasses import dataclass

from gesso.diffusion.schedules import SCHEDULES
from gesso.diffusion.schedules.temperature_range import TemperatureRange
from gesso.options import option


@SCHEDULES.register("polynomial")
@dataclass(frozen=True)
class PolynomialSchedule(TemperatureRange):
    """Follows t^degree: above degree 1 fast at the start, below it fast at the end."""

    degree: float = option(2.0, "Degree of the temperature's curve.", above=0, maximum=100)

    def height(self, time: float) -> float:
        height: float = time**self.degree
        return height
