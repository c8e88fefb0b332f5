"""Defines temperature schedules, one file each. Steps are counted down: the first of a canvas is N, the last is 1."""

from typing import Protocol

from gesso.options import Registry, Strategy


class Schedule(Strategy, Protocol):
    """Gives every denoising step its temperature; a frozen dataclass whose fields are its options."""

    def temperature(self, step: int, steps: int) -> float:
        """Returns the temperature of step `step`, counted down from `steps` to 1; above 0."""


SCHEDULES: Registry[Schedule] = Registry("schedule", __name__)
