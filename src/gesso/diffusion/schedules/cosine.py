"""Implements a schedule that cools slowly at the end."""

import math
from dataclasses import dataclass

from gesso.diffusion.schedules import SCHEDULES
from gesso.diffusion.schedules.temperature_range import TemperatureRange


@SCHEDULES.register("cosine")
@dataclass(frozen=True)
class CosineSchedule(TemperatureRange):
    """Follows 1 - cos(pi t / 2): fast at the start, ever more slowly towards `t_min` (arXiv 2202.04200)."""

    def height(self, time: float) -> float:
        return 1 - math.cos(0.5 * math.pi * time)
