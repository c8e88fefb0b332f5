"""Implements a schedule that cools slowly at both ends."""

import math
from dataclasses import dataclass

from gesso.diffusion.schedules import SCHEDULES
from gesso.diffusion.schedules.temperature_range import TemperatureRange


@SCHEDULES.register("square_cosine")
@dataclass(frozen=True)
class SquareCosineSchedule(TemperatureRange):
    """Follows 1 - cos(pi t / 2)^2: slow at both ends, and fastest between them (arXiv 2102.09672)."""

    def height(self, time: float) -> float:
        return math.sin(0.5 * math.pi * time) ** 2
